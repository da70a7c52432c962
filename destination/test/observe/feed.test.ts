import { EventEmitter } from 'node:events'
import type { ServerResponse } from 'node:http'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import type { Call } from '../../src/model/call.js'
import { Feed } from '../../src/observe/feed.js'

beforeEach(() => {
  vi.useFakeTimers()
})
afterEach(() => {
  vi.useRealTimers()
})

/** Listens to a feed as a response that is read at once. The names of the events are in `heard`. */
function listenTo(feed: Feed): { heard: string[] } {
  const heard: string[] = []
  const write = (text: string) => heard.push(...text.split('\n').filter((line) => line !== ''))
  const response = Object.assign(new EventEmitter(), { write, writableLength: 0 })
  const all = {
    seesSource: () => true,
    seesDestination: () => true,
    isOver: () => false,
    wordsOf: String,
  }
  feed.add(response as unknown as ServerResponse, { group: undefined, ...all })
  heard.length = 0
  return { heard }
}

test('a listener gets 50 events a second, and is told how many it has missed', () => {
  const feed = new Feed()
  const { heard } = listenTo(feed)
  const call = { type: 'track', userId: 'u', event: 'E', messageId: 'm' } as Call
  const countOf = (event: string) => heard.filter((line) => line === `event: ${event}`).length
  feed.callsAccepted('web', Array<Call>(60).fill(call))
  expect(countOf('call')).toBe(50)
  vi.advanceTimersByTime(1_000)
  expect(heard.slice(-2)).toEqual(['event: skipped', 'data: {"count":10}'])
  feed.callsAccepted('web', Array<Call>(60).fill(call))
  expect(countOf('call')).toBe(100)
})
