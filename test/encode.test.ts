import { describe, expect, test } from 'vitest'
import { MessageTooLargeError, ValidationError } from '../src/index.js'
import { createClient, scriptedFetch, sized, startCollector, thrownBy } from './collector.js'

const LIMIT = 32_768

/** What JSON makes of each, in bytes: what counts is what is sent. */
const alphabets: [name: string, fill: string, bytes: number][] = [
  ['ASCII', 'x', 1],
  ['the letter i', 'i', 1],
  ['2-byte characters', 'é', 2],
  ['3-byte characters', '€', 3],
  ['4-byte characters', '𝄞', 4],
  ['quotes', '"', 2],
  ['backslashes', '\\', 2],
  ['line feeds', '\n', 2],
  ['control characters', '\u0001', 6],
  ['NUL', '\0', 6],
  ['U+2028', '\u2028', 3],
  ['U+FEFF', '\uFEFF', 3],
  ['lone high surrogates', '\uD800', 6],
  ['lone low surrogates', '\uDC00', 6],
  ['percent signs', '%', 1],
  ['a mix of all', 'i"é€𝄞\\\u2028\uD800!', 2 + 2 + 3 + 4 + 2 + 3 + 6 + 2],
]

describe.each(alphabets)('a message full of %s', (_, fill, bytes) => {
  test(`takes ${bytes} bytes a piece, and 32,768 in all are sent`, async () => {
    expect(Buffer.byteLength(JSON.stringify(fill)) - 2).toBe(bytes)
    const collector = await startCollector()
    const analytics = createClient(collector)
    const message = sized(LIMIT, fill)
    analytics.track(message)
    expect(analytics.stats().pendingBytes).toBe(LIMIT)
    await analytics.flush()
    const { json, bytes: raw, messages } = collector.arrivals[0] ?? {}
    const envelope = '{"batch":[],"messageId":"","sentAt":""}'.length + 36 + 24
    expect(raw?.length).toBe(LIMIT + envelope)
    expect(Buffer.byteLength(json ?? '')).toBe(LIMIT + envelope)
    expect(messages?.[0]?.properties).toEqual({ fill: message.properties.fill })
  })

  test('is refused at 32,769 bytes, which the error counts', () => {
    const analytics = createClient(scriptedFetch())
    const message = sized(LIMIT, fill)
    message.properties.fill += 'x'
    const error = thrownBy(() => {
      analytics.track(message)
    })
    expect(error).toBeInstanceOf(MessageTooLargeError)
    expect(error).toMatchObject({ code: 'message_too_large', bytes: LIMIT + 1 })
    expect((error as Error).message).toContain('track() was given a message of 32769 bytes of JSON')
    expect((error as Error).message).toContain('the limit is 32768')
    expect(analytics.stats()).toMatchObject({ accepted: 0, pending: 0, pendingBytes: 0 })
  })
})

test('a character that the limit would cut in two does not fit', () => {
  for (const [fill, bytes] of [
    ['é', 2],
    ['€', 3],
    ['𝄞', 4],
  ] as const) {
    for (let over = 1; over < bytes; over++) {
      const message = sized(LIMIT + over - bytes)
      message.properties.fill += fill
      expect(
        thrownBy(() => {
          createClient(scriptedFetch()).track(message)
        }),
      ).toMatchObject({ bytes: LIMIT + over })
    }
  }
})

test('a message far over the limit is measured all the same', () => {
  const analytics = createClient(scriptedFetch())
  const error = thrownBy(() => {
    analytics.track(sized(3_000_000, '€'))
  })
  expect(error).toMatchObject({ bytes: 3_000_000 })
})

test('the client’s defaults count', () => {
  const analytics = createClient(scriptedFetch(), { context: { fill: 'x'.repeat(30_000) } })
  expect(() => {
    analytics.track(sized(2_700))
  }).not.toThrow()
  expect(() => {
    analytics.track(sized(2_800))
  }).toThrow(MessageTooLargeError)
})

describe('what JSON can’t hold is refused, and its path named', () => {
  const circular: Record<string, unknown> = { name: 'c' }
  circular['self'] = circular
  const loop = { a: { b: { c: {} as unknown } } }
  loop.a.b.c = loop.a
  const throwing = {
    get secret(): string {
      throw new Error('from the getter')
    },
  }
  const cases: [string, Record<string, unknown>, string][] = [
    ['a BigInt', { total: 10n }, 'properties.total'],
    ['a BigInt in a list', { items: [{ n: 1 }, { n: 2n }] }, 'properties.items.1.n'],
    ['an object in itself', circular, 'properties.self'],
    ['a loop further down', { x: loop }, 'properties.x.a.b.c'],
    ['a getter that throws', { card: throwing }, 'properties.card.secret'],
    [
      'a toJSON that throws',
      {
        when: {
          toJSON: () => {
            throw new Error('from toJSON')
          },
        },
      },
      'properties.when',
    ],
    ['a toJSON that gives a BigInt', { n: { toJSON: () => 1n } }, 'properties.n'],
    ['an Invalid Date’s neighbour', { ok: new Date(NaN), bad: 1n }, 'properties.bad'],
  ]
  test.each(cases)('%s', async (_, properties, path) => {
    const net = scriptedFetch()
    const analytics = createClient(net)
    analytics.track({ userId: 'u', event: 'before' })
    const error = thrownBy(() => {
      analytics.track({ userId: 'u', event: 'bad', properties })
    })
    analytics.track({ userId: 'u', event: 'after' })
    expect(error).toBeInstanceOf(ValidationError)
    expect(error).toMatchObject({ field: path, code: 'invalid_message' })
    expect((error as Error).message).toContain(`track() was given something in ${path} that`)
    expect((error as Error).cause).toBeInstanceOf(Error)
    expect(await analytics.flush()).toEqual({ delivered: 2, failed: 0 })
    expect(net.arrivals[0]?.messages.map(({ event }) => event)).toEqual(['before', 'after'])
  })

  test.each(['traits', 'context', 'integrations'])('in %s too', (field) => {
    const error = thrownBy(() => {
      createClient(scriptedFetch()).identify({ userId: 'u', [field]: { deep: { n: 1n } } })
    })
    expect(error).toMatchObject({ field: `${field}.deep.n` })
  })

  test('however deep it is', () => {
    let properties: Record<string, unknown> = { big: 1n }
    for (let depth = 0; depth < 20_000; depth++) properties = { d: properties }
    const error = thrownBy(() => {
      createClient(scriptedFetch()).track({ userId: 'u', event: 'e', properties })
    })
    expect(error).toBeInstanceOf(ValidationError)
    expect((error as ValidationError).field).toMatch(/^properties\.d/)
  })
})

describe('nesting', () => {
  /** So many levels of objects, or of arrays in an object. */
  const nested = (levels: number, isArray = false): Record<string, unknown> => {
    let value: unknown = isArray ? [] : {}
    for (let level = 2; level < levels; level++) value = isArray ? [value] : { d: value }
    return { d: value }
  }
  const record = (field: string, value: unknown) => {
    const event = field === 'properties' ? { event: 'e' } : {}
    const analytics = createClient(scriptedFetch())
    const message = { userId: 'u', ...event, [field]: value }
    Reflect.apply(analytics[event.event ? 'track' : 'identify'].bind(analytics), undefined, [
      message,
    ])
  }

  test.each(['properties', 'traits', 'context', 'integrations'])(
    'of 500 levels is accepted in %s, of 501 refused: the message is the first',
    (field) => {
      for (const isArray of [false, true]) {
        expect(() => {
          record(field, nested(499, isArray))
        }).not.toThrow()
        const error = thrownBy(() => {
          record(field, nested(500, isArray))
        })
        expect(error).toBeInstanceOf(ValidationError)
        expect(error).toMatchObject({ field })
        expect((error as Error).message).toContain(`${field} nested too deeply`)
        expect((error as Error).message).toContain('at most 500 levels, the message included')
      }
    },
  )

  test('is not counted in texts, nor across neighbours', () => {
    for (const properties of [
      { text: '{['.repeat(2_000) },
      { list: Array.from({ length: 2_000 }, () => []) },
    ]) {
      expect(() => {
        record('properties', properties)
      }).not.toThrow()
    }
  })

  test('of the client’s own context is refused when the client is made', () => {
    for (const option of ['context', 'integrations']) {
      expect(() => createClient(scriptedFetch(), { [option]: nested(499) })).not.toThrow()
      const error = thrownBy(() => createClient(scriptedFetch(), { [option]: nested(500) }))
      expect(error).toMatchObject({ code: 'invalid_option', option })
      expect((error as Error).message).toContain('nested at most 499 levels deep')
    }
  })
})

test('what JSON has no word for follows JSON’s own rules', async () => {
  const net = scriptedFetch()
  const analytics = createClient(net)
  analytics.track({
    userId: 'u',
    event: 'e',
    properties: {
      date: new Date(0),
      map: new Map([['a', 1]]),
      nothing: undefined,
      fn: () => 1,
      nan: NaN,
      infinite: Infinity,
      list: [undefined, () => 1],
      custom: { toJSON: () => 'own' },
      ['__proto__']: 'kept',
    },
  })
  await analytics.flush()
  const sent = net.arrivals[0]?.messages[0]?.properties
  expect(JSON.stringify(sent)).toBe(
    '{"date":"1970-01-01T00:00:00.000Z","map":{},"nan":null,"infinite":null,"list":[null,null],"custom":"own","__proto__":"kept"}',
  )
})
