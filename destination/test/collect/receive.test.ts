import { describe, expect, test } from 'vitest'
import { webhookBody } from '../../src/enqueue/webhook-body.js'
import { receiveCalls } from '../../src/collect/receive.js'
import { parseBody } from '../../src/http/json-body.js'
import type { CallType } from '../../src/model/call.js'

const NOW = Date.parse('2026-01-02T12:00:00.000Z')
const good = {
  type: 'track',
  messageId: 'm',
  timestamp: '2026-01-02T03:04:05.678Z',
  userId: 'u',
  event: 'E',
}

function receive(text: string | object, type?: CallType) {
  const body = Buffer.from(typeof text === 'string' ? text : JSON.stringify(text))
  return receiveCalls(parseBody(body), body.length, type, NOW)
}
const nested = (levels: number) => '{"a":'.repeat(levels - 1) + '{}' + '}'.repeat(levels - 1)

describe('a body', () => {
  test.each([
    ['', 'The body must be JSON in UTF-8: it is empty.'],
    ['null', 'The body must be a JSON object; got null.'],
    ['[1]', 'The body must be a JSON object; got an array.'],
    ['"x"', 'The body must be a JSON object; got "x".'],
  ])('that is %j is refused', (text, message) => {
    expect(() => parseBody(Buffer.from(text))).toThrow(
      expect.objectContaining({ status: 400, code: 'invalid_json', message }),
    )
  })

  test.each(['{"batch":[', 'batch=1', '{}{}', '\u0000', '{"a":NaN}'])(
    'that is %j is no JSON',
    (text) => {
      expect(() => parseBody(Buffer.from(text))).toThrow(
        expect.objectContaining({ status: 400, code: 'invalid_json' }),
      )
    },
  )

  test('may start with a byte order mark', () => {
    expect(parseBody(Buffer.from('\uFEFF{"a":1}'))).toEqual({ a: 1 })
  })

  test('keeps its calls where a byte of it is no UTF-8', () => {
    const [before, after] = JSON.stringify({ batch: [{ ...good, event: '|' }] }).split('|')
    const bytes = Buffer.concat([
      Buffer.from(before ?? ''),
      Buffer.from([0xff]),
      Buffer.from(after ?? ''),
    ])
    expect(receiveCalls(parseBody(bytes), bytes.length, undefined, NOW).calls[0]?.event).toBe(
      '\uFFFD',
    )
  })
})

describe('a batch', () => {
  test.each<[object, number, string, string]>([
    [{}, 400, 'invalid_batch', 'The body must have the calls in an array "batch"; got undefined.'],
    [
      { batch: {} },
      400,
      'invalid_batch',
      'The body must have the calls in an array "batch"; got an object.',
    ],
    [{ batch: [] }, 400, 'empty_batch', 'A batch must have at least one call; it has none.'],
    [
      { batch: [good], context: [] },
      400,
      'invalid_batch',
      'In the fields of the batch: context must be an object; got an array.',
    ],
    [{ batch: [null] }, 400, 'all_rejected', 'A call must be an object, got null.'],
    [
      { batch: [null, 1] },
      400,
      'all_rejected',
      'None of the 2 calls is valid. The first one: A call must be an object, got null.',
    ],
    [
      { batch: Array(2_501).fill(good) },
      413,
      'too_many_calls',
      'A batch must have at most 2500 calls; it has 2501. Send fewer at once.',
    ],
  ])('%j is refused with %j %s', (body, status, code, message) => {
    expect(() => receive(body)).toThrow(expect.objectContaining({ status, code, message }))
  })

  test('may have 2,500 calls', () => {
    expect(receive({ batch: Array(2_500).fill(good) }).calls).toHaveLength(2_500)
  })

  test('keeps its good calls, in order, and tells of the others by their index', () => {
    const { calls, rejected } = receive({
      batch: [null, good, { ...good, event: '' }, { ...good, messageId: 'n' }],
    })
    expect(calls.map(({ messageId }) => messageId)).toEqual(['m', 'n'])
    expect(rejected).toEqual([
      { index: 0, code: 'invalid_call', message: 'A call must be an object, got null.' },
      {
        index: 2,
        code: 'missing_field',
        message: 'track needs event, a non-empty string; got none.',
      },
    ])
  })

  test('corrects the clock of its client by its sentAt', () => {
    const { calls } = receive({ sentAt: '2026-01-02T11:00:00.000Z', batch: [good] })
    expect(calls[0]?.timestamp).toBe('2026-01-02T04:04:05.678Z')
  })
})

describe('a call of its own', () => {
  test('needs no type, and has its own sentAt, context and integrations', () => {
    const body = {
      ...good,
      type: undefined,
      sentAt: '2026-01-02T11:00:00.000Z',
      context: { ip: '::' },
      integrations: {},
    }
    expect(receive(body, 'track')).toEqual({
      calls: [
        { ...good, timestamp: '2026-01-02T04:04:05.678Z', context: { ip: '::' }, integrations: {} },
      ],
      rejected: [],
    })
  })

  test('is refused with its reason', () => {
    const rejected = [
      {
        index: 0,
        code: 'missing_field',
        message: 'track needs event, a non-empty string; got none.',
      },
    ]
    expect(() => receive({ userId: 'u' }, 'track')).toThrow(
      expect.objectContaining({ status: 400, code: 'all_rejected', details: { rejected } }),
    )
  })
})

describe('32,768 bytes of JSON', () => {
  const ofBytes = (bytes: number, unit = 'x') => {
    const room = bytes - JSON.stringify({ ...good, properties: { p: '' } }).length
    return { ...good, properties: { p: unit.repeat(Math.floor(room / Buffer.byteLength(unit))) } }
  }

  test('are taken, and one more is not', () => {
    const { calls, rejected } = receive({ batch: [ofBytes(32_768), ofBytes(32_769), good] })
    expect(calls).toHaveLength(2)
    expect(rejected).toEqual([
      {
        index: 1,
        code: 'call_too_large',
        message:
          'A call must have at most 32768 bytes of JSON; it has 32769. Send less data, or an id with which the receiver can find the rest.',
      },
    ])
  })

  test('are bytes, not characters', () => {
    const twice = ofBytes(40_000, 'é')
    expect(JSON.stringify(twice).length).toBeLessThan(32_768)
    expect(receive({ batch: [twice, good] }).rejected).toMatchObject([{ code: 'call_too_large' }])
  })

  test('are no more for the spaces of a client that prints its JSON', () => {
    const call = ofBytes(32_700)
    const text = JSON.stringify({ batch: [call] }, null, 20)
    expect(text.length).toBeGreaterThan(32_768)
    expect(receive(text).calls).toHaveLength(1)
  })

  test('count what the batch says for all', () => {
    const context = { c: 'x'.repeat(20_000) }
    const { calls, rejected } = receive({ context, batch: [ofBytes(12_000), ofBytes(13_000)] })
    expect(calls).toHaveLength(1)
    expect(rejected).toMatchObject([{ index: 1, code: 'call_too_large' }])
  })

  test('do not count what the batch says for all if the call says it itself', () => {
    const context = { traits: { bio: 'x'.repeat(14_000) } }
    const withOwn = (bytes: number) => ({
      ...good,
      context: { traits: { bio: 'y'.repeat(bytes) } },
    })
    const { calls, rejected } = receive({ context, batch: [withOwn(20_000), withOwn(33_000)] })
    expect(calls.map((call) => call.context)).toEqual([withOwn(20_000).context])
    const bytes = JSON.stringify(withOwn(33_000)).length
    expect(rejected).toMatchObject([
      { index: 1, message: expect.stringContaining(`it has ${bytes}.`) as unknown },
    ])
  })
})

describe('nesting', () => {
  const call = (properties: string) => `{"userId":"u","event":"E","properties":${properties}}`

  test('is taken to 500 levels, and forwarded', () => {
    const [deep] = receive(call(nested(499)), 'track').calls
    expect(deep && webhookBody(deep)).toContain('{"a":{}}')
  })

  test.each([
    ['501 levels', call(nested(500))],
    ['as many lists as fit', call(`{"a":${'['.repeat(16_000)}${']'.repeat(16_000)}}`)],
    ['as many objects as fit', call(nested(5_000))],
  ])('beyond it is refused: %s', (_what, text) => {
    expect(() => receive(text, 'track')).toThrow(
      expect.objectContaining({
        details: { rejected: [expect.objectContaining({ code: 'call_too_deep' })] },
      }),
    )
  })

  test('costs a batch only the call that has it', () => {
    const deep = call(nested(20_000)).replace('{', '{"type":"track",')
    const { calls, rejected } = receive(`{"batch":[${JSON.stringify(good)},${deep}]}`)
    expect(calls).toHaveLength(1)
    expect(rejected).toMatchObject([{ index: 1, code: 'call_too_deep' }])
  })

  test('is refused in what a batch says for all', () => {
    expect(() =>
      receive(`{"context":${nested(20_000)},"batch":[${JSON.stringify(good)}]}`),
    ).toThrow(expect.objectContaining({ status: 400, code: 'invalid_batch' }))
  })
})
