import { expect, test } from 'vitest'
import { readEvents, type StreamEvent } from '../../page/sse.js'

function eventsOf(pieces: readonly string[]): StreamEvent[] {
  const events: StreamEvent[] = []
  const push = readEvents((event) => events.push(event))
  for (const piece of pieces) push(piece)
  return events
}

const TEXT = ': hello\n\nevent: call\ndata: {"a":1}\n\ndata: x\r\ndata: y\r\n\r\nevent: none\n\n'
const EVENTS = [
  { event: 'call', data: '{"a":1}' },
  { event: 'message', data: 'x\ny' },
]

test('events are the same wherever the text is cut', () => {
  for (let at = 0; at <= TEXT.length; at++) {
    expect(eventsOf([TEXT.slice(0, at), TEXT.slice(at)])).toEqual(EVENTS)
  }
  expect(eventsOf(Array.from(TEXT))).toEqual(EVENTS)
})

test('an event that has not ended yet is none', () => {
  expect(eventsOf(['event: call\ndata: 1\n'])).toEqual([])
})
