import { describe, expect, test, vi } from 'vitest'
import {
  ClosedError,
  DroppedError,
  MessageTooLargeError,
  OptionError,
  ValidationError,
  type Analytics,
  type AnalyticsOptions,
  type HooklineError,
  type MessageType,
  type WireMessage,
} from '../src/index.js'
import { version } from '../src/version.js'
import {
  createClient,
  events,
  held,
  listen,
  names,
  pass,
  scriptedFetch,
  sized,
  startCollector,
  thrownBy,
  TIME,
  trackMany,
  turns,
  useFakeClock,
  WRITE_KEY,
} from './collector.js'
import calls from './fixtures/calls.json' with { type: 'json' }

const UUID_V7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/
const library = { name: 'hookline', version }

function call(analytics: Analytics, type: string, ...given: unknown[]): void {
  Reflect.apply(analytics[type as MessageType].bind(analytics), undefined, given)
}

/** A message the caller should not get: its userId is missing. */
const INVALID = { event: 'e' } as unknown as { userId: string; event: string }

describe('on the wire', () => {
  test.each(calls)('$name', async ({ type, given, wire }) => {
    useFakeClock()
    const net = scriptedFetch()
    const analytics = createClient(net)
    call(analytics, type, given)
    void analytics.flush()
    await turns()
    const [arrival] = net.arrivals
    const sent = arrival?.messages[0]
    expect(sent).toEqual({
      messageId: expect.stringMatching(UUID_V7) as string,
      timestamp: TIME,
      ...wire,
      context: { ...wire.context, library },
    })
    // Nothing beside it, no space, no field that was not given.
    const envelope = /^\{"batch":\[(\{.*\})\],"messageId":"([^"]+)","sentAt":"([^"]+)"\}$/
    const [, message = '', id, sentAt] = envelope.exec(arrival?.json ?? '') ?? []
    expect(message).toBe(JSON.stringify(sent))
    expect(id).toMatch(UUID_V7)
    expect(sentAt).toBe(TIME)
  })

  test('a request has the method, path, key and headers of the contract, and no others of ours', async () => {
    const collector = await startCollector()
    const analytics = createClient(collector)
    trackMany(analytics, 2)
    await analytics.flush()
    const [arrival] = collector.arrivals
    expect(arrival?.method).toBe('POST')
    expect(arrival?.path).toBe('/v1/batch')
    const { host, connection, accept, 'content-length': length, ...ours } = arrival?.headers ?? {}
    expect([host, connection, accept]).toEqual([new URL(collector.url).host, 'keep-alive', '*/*'])
    expect(Number(length)).toBe(arrival?.bytes.length)
    expect(ours).toEqual({
      'accept-encoding': 'identity',
      authorization: `Basic ${Buffer.from(`${WRITE_KEY}:`).toString('base64')}`,
      'content-type': 'application/json',
      'user-agent': `hookline/${version}`,
    })
    expect(arrival?.json).not.toContain(WRITE_KEY)
  })

  test('a write key beyond ASCII travels as UTF-8', async () => {
    const net = scriptedFetch()
    const { Analytics } = await import('../src/index.js')
    const analytics = new Analytics('clé-€-𝄞', { fetch: net.fetch })
    trackMany(analytics, 1)
    await analytics.close()
    const [, base64 = ''] = net.arrivals[0]?.headers['authorization']?.split(' ') ?? []
    expect(Buffer.from(base64, 'base64').toString()).toBe('clé-€-𝄞:')
  })

  test('each message and each envelope has an id of its own', async () => {
    const net = scriptedFetch()
    const analytics = createClient(net, { flushAt: 10 })
    trackMany(analytics, 10)
    await analytics.flush()
    trackMany(analytics, 10)
    await analytics.flush()
    const ids = net.arrivals.flatMap(({ body, messages }) => [
      body.messageId,
      ...messages.map(({ messageId }) => messageId),
    ])
    expect(ids).toHaveLength(22)
    expect(new Set(ids).size).toBe(22)
  })

  test('timestamp is the time of the call, sentAt that of the request', async () => {
    useFakeClock()
    const net = scriptedFetch()
    const analytics = createClient(net)
    trackMany(analytics, 1)
    await pass(1_234)
    trackMany(analytics, 1)
    await pass(3_766)
    const [arrival] = net.arrivals
    expect(arrival?.messages.map(({ timestamp }) => timestamp)).toEqual([
      TIME,
      '2026-01-02T03:04:06.912Z',
    ])
    expect(arrival?.body.sentAt).toBe('2026-01-02T03:04:10.678Z')
  })

  test.each([
    ['year 10000', '+010000-01-01T00:00:00.000Z'],
    ['year before 0', '-000001-12-31T00:00:00.000Z'],
    ['fake Date without milliseconds', '2020-01-01T00:00:00Z'],
  ])('a body is whole in a %s', async (_, time) => {
    const clock = vi.spyOn(Date, 'now').mockReturnValue(Date.parse(time)) // the client keeps the text of a millisecond
    const text = vi.spyOn(Date.prototype, 'toISOString').mockReturnValue(time)
    const net = scriptedFetch()
    const analytics = createClient(net)
    trackMany(analytics, 2)
    expect(await analytics.flush()).toEqual({ delivered: 2, failed: 0 })
    text.mockRestore()
    clock.mockRestore()
    expect(net.arrivals[0]?.body).toMatchObject({ sentAt: time, batch: [{}, { timestamp: time }] })
  })

  test('defaults of context and integrations are merged in, the message’s own keys winning', async () => {
    const net = scriptedFetch()
    const analytics = createClient(net, {
      context: { app: 'shop', ip: '192.0.2.1', library: { name: 'other' } },
      integrations: { All: false, Mail: true },
    })
    analytics.track({ userId: 'u', event: 'plain' })
    analytics.identify({
      userId: 'u',
      context: { ip: '203.0.113.7', locale: 'fr' },
      integrations: { Mail: false, Webhooks: true },
    })
    await analytics.flush()
    const [plain, own] = net.arrivals[0]?.messages ?? []
    expect(plain?.context).toEqual({ app: 'shop', ip: '192.0.2.1', library })
    expect(plain?.integrations).toEqual({ All: false, Mail: true })
    expect(own?.context).toEqual({ app: 'shop', ip: '203.0.113.7', locale: 'fr', library })
    expect(own?.integrations).toEqual({ All: false, Mail: false, Webhooks: true })
  })

  test('messages of all types travel in one body, in the order of the calls', async () => {
    const net = scriptedFetch()
    const analytics = createClient(net)
    analytics.track({ anonymousId: 'a', event: 'e' })
    analytics.alias({ userId: 'u', previousId: 'a' })
    analytics.identify({ userId: 'u' })
    analytics.group({ userId: 'u', groupId: 'g' })
    analytics.page({ userId: 'u' })
    analytics.screen({ userId: 'u' })
    await analytics.flush()
    expect(net.arrivals.map(({ messages }) => messages.map(({ type }) => type))).toEqual([
      ['track', 'alias', 'identify', 'group', 'page', 'screen'],
    ])
  })
})

describe('a call', () => {
  test.each([1, 2])('makes no request itself (flushAt %i)', async (flushAt) => {
    const net = scriptedFetch()
    const analytics = createClient(net, { flushAt })
    trackMany(analytics, 5)
    expect(net.arrivals).toEqual([])
    await Promise.resolve()
    expect(net.arrivals).toEqual([])
    await analytics.flush()
    expect(events(...net.arrivals).sort()).toEqual(names(0, 5))
  })

  test('returns nothing, whatever becomes of the message', () => {
    const analytics = createClient(scriptedFetch(), { maxQueueBytes: 1 })
    expect(Reflect.apply(analytics.track.bind(analytics), undefined, [sized(200)])).toBeUndefined()
  })

  test('does not throw or reject when delivery fails', async () => {
    const unhandled = vi.fn()
    process.on('unhandledRejection', unhandled)
    const net = scriptedFetch(401, new Error('down'), 500)
    const analytics = createClient(net, { flushAt: 1, maxRetries: 0 })
    expect(() => {
      trackMany(analytics, 3)
    }).not.toThrow()
    expect(await analytics.flush()).toEqual({ delivered: 0, failed: 3 })
    await turns()
    process.off('unhandledRejection', unhandled)
    expect(unhandled).not.toHaveBeenCalled()
  })

  test('is not harmed by a logger or a waitUntil that rejects', async () => {
    const unhandled = vi.fn()
    process.on('unhandledRejection', unhandled)
    const called: string[] = []
    // Not of vi.fn(), which handles what it returns.
    const rejecting = (name: string) => () => {
      called.push(name)
      return Promise.reject(new Error(name))
    }
    const logger = { debug: rejecting('debug'), warn: rejecting('warn') }
    const waitUntil: (promise: Promise<unknown>) => unknown = rejecting('waitUntil')
    const options = { flushAt: 1, logger, waitUntil, onFailed: undefined }
    const analytics = createClient(scriptedFetch(401, 200), options)
    trackMany(analytics, 2)
    expect(await analytics.flush()).toEqual({ delivered: 1, failed: 1 })
    await new Promise((resolve) => setImmediate(resolve))
    process.off('unhandledRejection', unhandled)
    expect(new Set(called)).toEqual(new Set(['debug', 'warn', 'waitUntil']))
    expect(unhandled).not.toHaveBeenCalled()
  })

  test('takes a snapshot: what changes later is not sent', async () => {
    const net = scriptedFetch()
    const analytics = createClient(net)
    const message = {
      userId: 'before',
      event: 'before',
      properties: { nested: { list: ['before'] } },
      context: { ip: 'before' },
      integrations: { Mail: true },
      timestamp: new Date(0),
    }
    analytics.track(message)
    message.userId = message.event = message.context.ip = 'after'
    message.properties.nested.list[0] = 'after'
    message.integrations.Mail = false
    message.timestamp.setFullYear(1999)
    await analytics.flush()
    expect(net.arrivals[0]?.messages[0]).toMatchObject({
      userId: 'before',
      event: 'before',
      properties: { nested: { list: ['before'] } },
      context: { ip: 'before' },
      integrations: { Mail: true },
      timestamp: '1970-01-01T00:00:00.000Z',
    })
  })

  test('made while another is read is sent as well', async () => {
    const net = scriptedFetch()
    const analytics = createClient(net)
    analytics.track({
      userId: 'u',
      event: 'outer',
      properties: {
        get inner() {
          trackMany(analytics, 1)
          return 1
        },
      },
    })
    await analytics.flush()
    expect(net.arrivals[0]?.messages.map(({ event }) => event)).toEqual(['e0', 'outer'])
  })

  test('leaves the message that it is given as it is', () => {
    const message = Object.freeze({
      userId: 'u',
      event: 'e',
      properties: Object.freeze({ a: 1 }),
      context: Object.freeze({ b: 2 }),
    })
    createClient(scriptedFetch(), { context: { c: 3 } }).track(message)
    expect(message).toEqual({ userId: 'u', event: 'e', properties: { a: 1 }, context: { b: 2 } })
  })
})

describe('a callback', () => {
  test('is called once, with nothing, when its message was delivered', async () => {
    const net = scriptedFetch()
    const heard = listen()
    const analytics = createClient(net)
    const callback = vi.fn()
    analytics.identify({ userId: 'u' }, callback)
    analytics.track({ userId: 'u', event: 'e' }, heard.as('track'))
    analytics.page({ userId: 'u' }, heard.as('page'))
    analytics.screen({ userId: 'u' }, heard.as('screen'))
    analytics.group({ userId: 'u', groupId: 'g' }, heard.as('group'))
    analytics.alias({ userId: 'u', previousId: 'p' }, heard.as('alias'))
    expect(callback).not.toHaveBeenCalled()
    await analytics.flush()
    await analytics.close()
    expect(callback.mock.calls).toEqual([[undefined]])
    expect(heard.codes).toEqual(['track: ok', 'page: ok', 'screen: ok', 'group: ok', 'alias: ok'])
  })

  test('comes a batch in a turn of the event loop when many are lost at once', async () => {
    const net = scriptedFetch()
    net.otherwise('hang')
    const told: number[] = []
    let turn = 0
    const analytics = createClient(net, {
      onFailed: ({ messages }) => (told[turn] = (told[turn] ?? 0) + messages.length),
    })
    const heard = listen()
    trackMany(analytics, 6_000, 0, heard.as)
    const count = () => {
      turn++
      if (heard.outcomes.length < 6_000) setImmediate(count)
    }
    setImmediate(count)
    expect(await analytics.close({ timeout: 0 })).toEqual({ delivered: 0, failed: 6_000 })
    expect(heard.codes).toEqual(names(0, 6_000).map((name) => `${name}: close_timeout`))
    const some = told.filter(Boolean)
    expect(some.length).toBeGreaterThan(2)
    expect(Math.max(...some)).toBeLessThanOrEqual(2_500)
  })

  test('is not called when the call throws', async () => {
    const callback = vi.fn()
    const analytics = createClient(scriptedFetch())
    expect(() => {
      analytics.track(INVALID, callback)
    }).toThrow(ValidationError)
    expect(() => {
      analytics.track(sized(32_769), callback)
    }).toThrow(MessageTooLargeError)
    await turns()
    await analytics.close()
    expect(callback).not.toHaveBeenCalled()
  })

  const lost: [string, AnalyticsOptions, string][] = [
    ['its queue is full', { maxQueueBytes: 1 }, 'queue_full'],
    ['the client is disabled', { disabled: true }, 'disabled'],
    ['beforeSend drops it', { beforeSend: () => null }, 'before_send'],
    [
      'beforeSend throws',
      {
        beforeSend: () => {
          throw new Error('x')
        },
      },
      'before_send',
    ],
  ]
  test.each(lost)('is never called inside its call: when %s', async (_, options, code) => {
    const heard = listen()
    const analytics = createClient(scriptedFetch(), options)
    trackMany(analytics, 3, 0, heard.as)
    expect(heard.outcomes).toEqual([])
    await turns()
    expect(heard.codes).toEqual([`e0: ${code}`, `e1: ${code}`, `e2: ${code}`])
    await analytics.close()
    expect(heard.outcomes).toHaveLength(3)
  })

  test('is never called inside its call: when that is invalid or comes after close', async () => {
    const heard = listen()
    const analytics = createClient(scriptedFetch(), { onInvalid: 'report' })
    analytics.track(INVALID, heard.as('invalid'))
    expect(heard.outcomes).toEqual([])
    await analytics.close()
    trackMany(analytics, 1, 0, heard.as)
    expect(heard.codes).toEqual(['invalid: invalid_message'])
    await turns()
    expect(heard.codes).toEqual(['invalid: invalid_message', 'e0: closed'])
  })

  test('of a loss in a loop is never called in its own call, however long the loop', async () => {
    const analytics = createClient(scriptedFetch(), { disabled: true })
    let current = -1
    let calledInOwn = 0
    let called = 0
    for (let i = 0; i < 5_000; i++) {
      current = i
      analytics.track({ userId: 'u', event: 'e' }, () => {
        called++
        if (i === current) calledInOwn++
      })
    }
    current = -1
    // What is to be told does not pile up beyond a thousand.
    expect(called).toBeGreaterThanOrEqual(4_000)
    await turns()
    expect({ called, calledInOwn }).toEqual({ called: 5_000, calledInOwn: 0 })
  })

  test('may record, flush and close: nothing is lost over it', async () => {
    const net = scriptedFetch()
    const heard = listen()
    const analytics = createClient(net)
    const done = new Promise<void>((resolve) => {
      analytics.track({ userId: 'u', event: 'first' }, () => {
        analytics.track({ userId: 'u', event: 'second' }, heard.as('second'))
        void analytics.flush()
        void analytics.close().then(() => {
          resolve()
        })
      })
    })
    void analytics.flush()
    await done
    expect(events(...net.arrivals)).toEqual(['first', 'second'])
    expect(heard.codes).toEqual(['second: ok'])
  })
})

describe('beforeSend', () => {
  test('sees the message as it would be sent', async () => {
    useFakeClock()
    const seen: WireMessage[] = []
    const net = scriptedFetch()
    const analytics = createClient(net, {
      context: { app: 'shop' },
      beforeSend: (message) => {
        seen.push(structuredClone(message))
        return message
      },
    })
    analytics.page({ userId: 'u', name: 'Home', traits: { at: new Date(0) }, messageId: 'm' })
    void analytics.flush()
    await turns()
    expect(seen).toEqual([
      {
        type: 'page',
        messageId: 'm',
        timestamp: TIME,
        userId: 'u',
        name: 'Home',
        properties: { at: '1970-01-01T00:00:00.000Z' },
        context: { app: 'shop', library },
      },
    ])
    expect(net.arrivals[0]?.messages).toEqual(seen)
  })

  test('redacts a copy: what the application holds stays as it is', async () => {
    const net = scriptedFetch()
    const properties = { card: { number: '4242 4242 4242 4242' } }
    const analytics = createClient(net, {
      beforeSend: (message) => {
        const card = message.properties?.['card'] as { number?: string }
        card.number = '****'
        delete message.userId
        message.anonymousId = 'hidden'
        return message
      },
    })
    analytics.track({ userId: 'u', event: 'e', properties })
    await analytics.flush()
    expect(properties.card.number).toBe('4242 4242 4242 4242')
    expect(net.arrivals[0]?.json).not.toContain('4242 4242 4242 4242')
    expect(net.arrivals[0]?.messages[0]).toMatchObject({
      anonymousId: 'hidden',
      properties: { card: { number: '****' } },
    })
    expect(net.arrivals[0]?.messages[0]).not.toHaveProperty('userId')
  })

  test('may give back another object, frozen too', async () => {
    const net = scriptedFetch()
    const analytics = createClient(net, {
      beforeSend: (message) => Object.freeze({ ...message, event: `${message.event ?? ''}!` }),
    })
    trackMany(analytics, 1)
    await analytics.flush()
    expect(events(...net.arrivals)).toEqual(['e0!'])
  })

  test('can’t take away what the wire needs: id, time and library are completed', async () => {
    useFakeClock()
    const net = scriptedFetch()
    const analytics = createClient(net, {
      context: { app: 'shop' },
      beforeSend: ({ type, userId, event }) => ({ type, userId, event }) as WireMessage,
    })
    trackMany(analytics, 1)
    void analytics.flush()
    await turns()
    expect(net.arrivals[0]?.messages[0]).toEqual({
      type: 'track',
      userId: 'u',
      event: 'e0',
      messageId: expect.stringMatching(UUID_V7) as string,
      timestamp: TIME,
      context: { library },
    })
  })

  test('that gives null drops the message: counted, told to the callback, no failure', async () => {
    const heard = listen()
    const net = scriptedFetch()
    const analytics = createClient(net, {
      ...heard.hooks,
      beforeSend: (message) => (message.event === 'e1' ? null : message),
    })
    trackMany(analytics, 3, 0, heard.as)
    expect(analytics.stats()).toMatchObject({ accepted: 3, dropped: 1, pending: 2 })
    expect(await analytics.flush()).toEqual({ delivered: 2, failed: 0 })
    expect(events(...net.arrivals)).toEqual(['e0', 'e2'])
    expect(heard.codes.sort()).toEqual(['e0: ok', 'e1: before_send', 'e2: ok'])
    expect(heard.failed).toEqual([])
  })

  const rubbish: [string, (message: WireMessage) => unknown][] = [
    ['undefined', () => undefined],
    ['a promise', (message) => Promise.resolve(message)],
    ['a string', (message) => JSON.stringify(message)],
    ['true', () => true],
    ['an array', (message) => [message]],
    ['an empty object', () => ({})],
    ['no identity', ({ type, event }) => ({ type, event })],
    ['an empty event', (message) => ({ ...message, event: '' })],
    ['another type', (message) => ({ ...message, type: 'page' })],
    ['a field that is none', (message) => ({ ...message, secret: 1 })],
    ['a BigInt', (message) => ({ ...message, properties: { big: 1n } })],
    ['too much', (message) => ({ ...message, properties: { big: 'x'.repeat(32_768) } })],
    [
      'nothing, for it throws',
      () => {
        throw new Error('redaction broke')
      },
    ],
    [
      'nothing, for it throws no error',
      () => {
        // eslint-disable-next-line @typescript-eslint/only-throw-error
        throw 'redaction broke'
      },
    ],
  ]
  test.each(rubbish)('that gives %s drops the message unsent', async (_, beforeSend) => {
    const heard = listen()
    const net = scriptedFetch()
    const analytics = createClient(net, {
      ...heard.hooks,
      beforeSend: beforeSend as NonNullable<AnalyticsOptions['beforeSend']>,
    })
    trackMany(analytics, 1, 0, heard.as)
    expect(analytics.stats()).toMatchObject({ accepted: 1, dropped: 1, pending: 0 })
    await analytics.close()
    expect(net.arrivals).toEqual([])
    expect(heard.codes).toEqual(['e0: before_send'])
    expect(heard.failed).toHaveLength(1)
    const [report] = heard.failed
    expect(report?.error).toBeInstanceOf(DroppedError)
    expect(report?.error.message).toMatch(/^beforeSend failed, so the track was dropped: /)
    // Not even the report may hold what was to be redacted.
    expect(report?.messages).toEqual([
      { type: 'track', messageId: expect.stringMatching(UUID_V7) as string, json: undefined },
    ])
  })

  const SYNCHRONOUS = 'it must be synchronous, but it returned a promise. Return the message itself'
  const unusable: [string, (message: WireMessage) => unknown, advice: string][] = [
    ['a promise', (message) => Promise.resolve(message), SYNCHRONOUS],
    ['a promise of null', () => Promise.resolve(null), SYNCHRONOUS],
    ['a promise that rejects', () => Promise.reject(new Error('from beforeSend')), SYNCHRONOUS],
    [
      'the promise of another library',
      () => ({
        then: (_: unknown, reject: (error: Error) => void) => {
          reject(new Error('x'))
        },
      }),
      SYNCHRONOUS,
    ],
    ['nothing', () => undefined, 'it returned undefined. Return the message'],
  ]
  test.each(unusable)(
    'that returns %s drops the message with advice, and does not end the process',
    async (_, beforeSend, advice) => {
      const unhandled = vi.fn()
      process.on('unhandledRejection', unhandled)
      const heard = listen()
      const analytics = createClient(scriptedFetch(), {
        ...heard.hooks,
        beforeSend: beforeSend as () => null,
      })
      trackMany(analytics, 1, 0, heard.as)
      await turns()
      process.off('unhandledRejection', unhandled)
      expect(unhandled).not.toHaveBeenCalled()
      expect(heard.codes).toEqual(['e0: before_send'])
      const [report] = heard.failed
      expect(report?.error.message).toContain(`so the track was dropped: ${advice}`)
      expect(report?.error.message).toContain('or null to drop it')
      expect(report?.error.cause).toMatchObject({ code: 'invalid_option', option: 'beforeSend' })
    },
  )

  test('that recorded a message of its own sends both', async () => {
    const net = scriptedFetch()
    const analytics = createClient(net, {
      beforeSend: (message) => {
        if (message.event === 'e0') trackMany(analytics, 1, 1)
        return message
      },
    })
    trackMany(analytics, 1)
    await analytics.flush()
    expect(events(...net.arrivals)).toEqual(['e1', 'e0'])
  })

  test('is not asked about what is invalid', () => {
    const beforeSend = vi.fn((message: WireMessage) => message)
    const analytics = createClient(scriptedFetch(), { beforeSend })
    expect(() => {
      analytics.track(INVALID)
    }).toThrow(ValidationError)
    expect(beforeSend).not.toHaveBeenCalled()
  })
})

describe('onInvalid', () => {
  test("'report' gives a mistake to the callback and onFailed, and does not throw", async () => {
    const heard = listen()
    const net = scriptedFetch()
    const analytics = createClient(net, { ...heard.hooks, onInvalid: 'report' })
    analytics.track(INVALID, heard.as('invalid'))
    analytics.track(sized(32_769), heard.as('large'))
    call(analytics, 'page', undefined)
    call(analytics, 'track', { userId: 'u', event: 'e' }, 'no function')
    await turns()
    expect(heard.codes).toEqual(['invalid: invalid_message', 'large: message_too_large'])
    expect(heard.failed.map(({ error, messages }) => [error.code, messages])).toEqual([
      ['invalid_message', [{ type: 'track', messageId: undefined, json: undefined }]],
      ['message_too_large', [{ type: 'track', messageId: 'm', json: undefined }]],
      ['invalid_message', [{ type: 'page', messageId: undefined, json: undefined }]],
      ['invalid_message', [{ type: 'track', messageId: undefined, json: undefined }]],
    ])
    expect(analytics.stats().accepted).toBe(0)
    expect(await analytics.flush()).toEqual({ delivered: 0, failed: 0 })
    expect(net.arrivals).toEqual([])
  })

  test("'report' names the id that an invalid message has, if that is text", async () => {
    const { failed, hooks } = listen()
    const analytics = createClient(scriptedFetch(), { ...hooks, onInvalid: 'report' })
    call(analytics, 'track', { messageId: 'm1' })
    call(analytics, 'track', { ...sized(32_769), messageId: 'm2' })
    call(analytics, 'track', { messageId: 3 })
    const { proxy, revoke } = Proxy.revocable({}, {})
    revoke()
    call(analytics, 'track', proxy)
    await turns()
    const ids = failed.flatMap(({ messages }) => messages.map(({ messageId }) => messageId))
    expect(ids).toEqual(['m1', 'm2', undefined, undefined])
  })
})

describe('disabled', () => {
  test('validates, counts, tells the callback, and sends nothing', async () => {
    const heard = listen()
    const net = scriptedFetch()
    const analytics = createClient(net, { ...heard.hooks, disabled: true, flushAt: 1 })
    trackMany(analytics, 2, 0, heard.as)
    expect(() => {
      analytics.track(INVALID)
    }).toThrow(ValidationError)
    expect(analytics.stats()).toMatchObject({ accepted: 2, dropped: 2, pending: 0 })
    expect(await analytics.close()).toEqual({ delivered: 0, failed: 0 })
    expect(net.arrivals).toEqual([])
    expect(heard.codes).toEqual(['e0: disabled', 'e1: disabled'])
    expect(heard.failed).toEqual([])
  })
})

describe('when the queue is full', () => {
  /** A client whose first two messages are in flight, and that has room for four in all. */
  async function full(overflow: AnalyticsOptions['overflow']) {
    const heard = listen()
    const gate = held()
    const net = scriptedFetch()
    const collector = await startCollector()
    collector.script(gate.reply)
    const analytics = createClient(collector, {
      ...heard.hooks,
      flushAt: 2,
      maxQueueBytes: 4 * 200,
      overflow,
    })
    const track = (name: string) => {
      analytics.track(sized(200, 'x', name), heard.as(name))
    }
    track('a')
    track('b')
    await collector.arrived(1)
    track('c')
    track('d')
    return { analytics, collector, gate, heard, net, track }
  }

  test('drop-newest refuses what comes, byte by byte, and reports it', async () => {
    const { analytics, collector, gate, heard, track } = await full('drop-newest')
    expect(analytics.stats()).toMatchObject({ pending: 4, pendingBytes: 800, dropped: 0 })
    track('e')
    track('f')
    expect(analytics.stats()).toMatchObject({ accepted: 6, pending: 4, dropped: 2 })
    expect(heard.codes).toEqual([])
    await turns()
    expect(heard.codes).toEqual(['e: queue_full', 'f: queue_full'])
    expect(heard.failed).toHaveLength(1)
    expect(heard.failed[0]?.error).toMatchObject({ code: 'queue_full', name: 'DroppedError' })
    expect(heard.failed[0]?.error.message).toContain('800 bytes')
    const reported = heard.failed[0]?.messages.map(({ json }) => JSON.parse(json ?? '') as object)
    expect(reported).toMatchObject([{ event: 'e' }, { event: 'f' }])
    gate.release()
    expect(await analytics.flush()).toEqual({ delivered: 4, failed: 0 })
    expect(events(...collector.arrivals)).toEqual(['a', 'b', 'c', 'd'])
    expect(analytics.stats()).toEqual({
      accepted: 6,
      delivered: 4,
      rejected: 0,
      dropped: 2,
      pending: 0,
      pendingBytes: 0,
    })
  })

  test('drop-oldest lets go of the oldest that wait, never of those in flight', async () => {
    const { analytics, collector, gate, heard, track } = await full('drop-oldest')
    const flushed = analytics.flush()
    track('e')
    expect(analytics.stats()).toMatchObject({ accepted: 5, pending: 4, pendingBytes: 800 })
    expect(heard.codes).toEqual([])
    await turns()
    expect(heard.codes).toEqual(['c: queue_full'])
    expect(heard.failed).toHaveLength(1)
    expect(heard.failed[0]?.messages[0]?.json).toContain('"event":"c"')
    gate.release()
    expect(await flushed).toEqual({ delivered: 3, failed: 1 })
    await analytics.flush()
    expect(events(...collector.arrivals)).toEqual(['a', 'b', 'd', 'e'])
    expect(heard.codes.sort()).toEqual(['a: ok', 'b: ok', 'c: queue_full', 'd: ok', 'e: ok'])
    expect(analytics.stats()).toMatchObject({ accepted: 5, delivered: 4, dropped: 1, pending: 0 })
  })

  test('drop-oldest drops what comes if those in flight leave it no room', async () => {
    const { analytics, collector, gate, heard } = await full('drop-oldest')
    analytics.track(sized(401, 'x', 'big'), heard.as('big'))
    await turns()
    expect(heard.codes).toEqual(['big: queue_full'])
    analytics.track(sized(400, 'x', 'fits'), heard.as('fits'))
    await turns()
    expect(heard.codes).toEqual(['big: queue_full', 'c: queue_full', 'd: queue_full'])
    gate.release()
    await analytics.flush()
    expect(events(...collector.arrivals)).toEqual(['a', 'b', 'fits'])
  })

  test.each(['drop-newest', 'drop-oldest'] as const)(
    '%s takes what fits to the byte, and not one more',
    async (overflow) => {
      useFakeClock()
      const heard = listen()
      const net = scriptedFetch()
      const analytics = createClient(net, { maxQueueBytes: 500, overflow })
      analytics.track(sized(500), heard.as('fits'))
      expect(analytics.stats()).toMatchObject({ pending: 1, pendingBytes: 500 })
      await pass(5_000)
      expect(heard.codes).toEqual(['fits: ok'])
      analytics.track(sized(501), heard.as('too large'))
      await turns()
      expect(heard.codes).toEqual(['fits: ok', 'too large: queue_full'])
    },
  )

  test('room that delivery makes is used again', async () => {
    const { analytics, collector, gate, track } = await full('drop-newest')
    gate.release()
    await analytics.flush()
    expect(analytics.stats().pendingBytes).toBe(0)
    for (const name of ['e', 'f', 'g', 'h']) track(name)
    expect(await analytics.flush()).toEqual({ delivered: 4, failed: 0 })
    expect(events(...collector.arrivals)).toEqual('abcdefgh'.split(''))
  })

  test('drop-oldest keeps the newest through an outage, in order', async () => {
    useFakeClock()
    const net = scriptedFetch()
    net.otherwise(503)
    const analytics = createClient(net, {
      flushAt: 2,
      maxQueueBytes: 10 * 200,
      overflow: 'drop-oldest',
    })
    const send = (name: string) => {
      analytics.track(sized(200, 'x', name))
    }
    names(0, 2).forEach(send)
    await turns()
    names(2, 100).forEach(send)
    expect(analytics.stats()).toMatchObject({ accepted: 100, dropped: 90, pending: 10 })
    net.otherwise(200)
    const before = net.arrivals.length
    await pass(60_000)
    // The first two had been tried: they may have arrived, so they were kept.
    expect(events(...net.arrivals.slice(before))).toEqual([...names(0, 2), ...names(92, 100)])
  })

  test('drop-oldest keeps the newest after hours of an outage, and only what was tried is kept, too', async () => {
    useFakeClock()
    const net = scriptedFetch()
    net.otherwise(503)
    const analytics = createClient(net, { maxQueueBytes: 100_000, overflow: 'drop-oldest' })
    trackMany(analytics, 1_000)
    await pass(4 * 3_600_000)
    const tried = new Set(events(...net.arrivals))
    trackMany(analytics, 1_000, 1_000)
    const { pending } = analytics.stats()
    const before = net.arrivals.length
    net.otherwise(200)
    void analytics.flush()
    await pass(60_000)
    const arrived = events(...net.arrivals.slice(before))
    expect(arrived).toEqual([
      ...names(0, 1_000).filter((name) => tried.has(name)),
      ...names(2_000 - pending + tried.size, 2_000),
    ])
  })
})

describe('close', () => {
  test('flushes, and closing again gives the same promise', async () => {
    const net = scriptedFetch()
    const analytics = createClient(net)
    trackMany(analytics, 3)
    const closed = analytics.close()
    expect(analytics.close()).toBe(closed)
    expect(analytics.close({ timeout: 0 })).toBe(closed)
    expect(await closed).toEqual({ delivered: 3, failed: 0 })
    expect(analytics.close()).toBe(closed)
    expect(net.arrivals).toHaveLength(1)
  })

  test('of an idle client resolves at once', async () => {
    useFakeClock()
    expect(await createClient(scriptedFetch()).close()).toEqual({ delivered: 0, failed: 0 })
    expect(vi.getTimerCount()).toBe(0)
  })

  test('leaves no timer and no connection behind', async () => {
    useFakeClock()
    const collector = await startCollector()
    const analytics = createClient(collector)
    trackMany(analytics, 1)
    const closed = analytics.close()
    await collector.arrived(1)
    await closed
    await collector.disconnected()
    vi.advanceTimersByTime(5_000)
    expect(vi.getTimerCount()).toBe(0)
  })

  test('gives up after 30 s, and reports what is left as failed', async () => {
    useFakeClock()
    const heard = listen()
    const net = scriptedFetch(200)
    net.otherwise('hang')
    const analytics = createClient(net, { ...heard.hooks, timeout: 120_000, flushAt: 2 })
    trackMany(analytics, 2, 0, heard.as)
    await pass(2)
    trackMany(analytics, 2, 2, heard.as)
    await turns()
    trackMany(analytics, 3, 4, heard.as)
    const closed = vi.fn()
    const closing = analytics.close().then(closed)
    await pass(29_999)
    expect(closed).not.toHaveBeenCalled()
    expect(heard.codes).toEqual(['e0: ok', 'e1: ok'])
    await pass(1)
    await closing
    expect(closed.mock.calls).toEqual([[{ delivered: 2, failed: 5 }]])
    expect(heard.codes.slice(2)).toEqual(names(2, 7).map((name) => `${name}: close_timeout`))
    expect(heard.failed).toHaveLength(1)
    expect(heard.failed[0]?.messages.map(({ json }) => json && events0(json))).toEqual(names(2, 7))
    expect(heard.failed[0]?.error.message).toContain('30000 ms')
    expect(analytics.stats()).toEqual({
      accepted: 7,
      delivered: 2,
      rejected: 0,
      dropped: 5,
      pending: 0,
      pendingBytes: 0,
    })
    // The one that hung stays given up, whatever its end.
    await pass(200_000)
    expect(heard.outcomes).toHaveLength(7)
  })
  const events0 = (json: string) => (JSON.parse(json) as WireMessage).event

  test('with a timeout of 0 gives up at once', async () => {
    useFakeClock()
    const heard = listen()
    const net = scriptedFetch()
    net.otherwise('hang')
    const analytics = createClient(net, heard.hooks)
    trackMany(analytics, 2)
    const closed = analytics.close({ timeout: 0 })
    await pass(0)
    expect(await closed).toEqual({ delivered: 0, failed: 2 })
    expect(heard.failed[0]?.messages).toHaveLength(2)
  })

  test('with a timeout of Infinity waits for the end of the outage', async () => {
    useFakeClock()
    const net = scriptedFetch()
    net.otherwise(503)
    const analytics = createClient(net)
    trackMany(analytics, 2)
    const closed = analytics.close({ timeout: Infinity })
    await pass(600_000)
    expect(analytics.stats().pending).toBe(2)
    net.otherwise(200)
    await pass(30_000)
    expect(await closed).toEqual({ delivered: 2, failed: 0 })
  })

  test('ends a back-off: what is left is tried at once', async () => {
    useFakeClock()
    const net = scriptedFetch(503, 503, 503, 503, 503, 503, 503)
    const analytics = createClient(net, { flushAt: 1 })
    trackMany(analytics, 1)
    await pass(40_000)
    expect(net.arrivals.length).toBeGreaterThanOrEqual(7)
    net.script(503)
    trackMany(analytics, 1, 1)
    await turns()
    const before = net.arrivals.length
    const closed = analytics.close()
    await turns()
    expect(net.arrivals.length).toBeGreaterThan(before)
    await pass(1_000)
    expect(await closed).toMatchObject({ failed: 0 })
  })

  test('cancels the request that it gives up', async () => {
    const collector = await startCollector()
    collector.otherwise('silence')
    const analytics = createClient(collector)
    trackMany(analytics, 1)
    void analytics.flush()
    await collector.arrived(1)
    expect(await analytics.close({ timeout: 0 })).toEqual({ delivered: 0, failed: 1 })
    await collector.disconnected()
  })

  test('cancels it where the fetch is an injected one, too', async () => {
    useFakeClock()
    const signals: AbortSignal[] = []
    const net = scriptedFetch()
    net.otherwise((_, { signal }) => {
      signals.push(signal)
      return 'hang'
    })
    const analytics = createClient(net, { flushAt: 1 })
    trackMany(analytics, 3)
    await turns()
    const closed = analytics.close({ timeout: 500 })
    await pass(499)
    expect(signals.map(({ aborted }) => aborted)).toEqual([false, false, false])
    await pass(1)
    await closed
    expect(signals.map(({ aborted }) => aborted)).toEqual([true, true, true])
    expect((signals[0]?.reason as HooklineError).code).toBe('close_timeout')
  })

  test('refuses options that it does not have', () => {
    const analytics = createClient(scriptedFetch())
    for (const method of ['flush', 'close'] as const) {
      const error = thrownBy(() =>
        Reflect.apply(analytics[method].bind(analytics), undefined, [{ timout: 1 }]),
      )
      expect(error).toMatchObject({
        code: 'invalid_option',
        option: 'timout',
        message: `${method}() has no option "timout". Its only option is timeout.`,
      })
    }
  })

  test.each([[1_000], [Infinity], [() => undefined], [true]])(
    'refuses what other clients take: %s',
    (given) => {
      const analytics = createClient(scriptedFetch())
      for (const method of ['flush', 'close'] as const) {
        const call = analytics[method].bind(analytics)
        const error = thrownBy(() => Reflect.apply(call, undefined, [given]))
        expect(error).toMatchObject({ code: 'invalid_option', option: 'timeout' })
        expect((error as Error).message).toMatch(
          /takes an object, such as \{ timeout: 5000 \}.* got /,
        )
      }
    },
  )

  test.each([[0], [1, null], ['SIGTERM', 15], [null], [new Event('close')]])(
    'is a listener of events that have %j, without its client too',
    async (...given) => {
      // eslint-disable-next-line @typescript-eslint/unbound-method -- an application may give it to process.once
      const { flush, close } = createClient(scriptedFetch())
      expect(await Reflect.apply(flush, process, given)).toEqual({ delivered: 0, failed: 0 })
      expect(await Reflect.apply(close, process, given)).toEqual({ delivered: 0, failed: 0 })
    },
  )

  test('and every call work when they are taken off the client', async () => {
    const net = scriptedFetch()
    // eslint-disable-next-line @typescript-eslint/unbound-method -- an application may take them
    const { identify, track, page, screen, group, alias, deliver, flush, stats } = createClient(net)
    const userId = 'u'
    identify({ userId })
    track({ userId, event: 'Signed Up' })
    page({ userId })
    screen({ userId })
    group({ userId, groupId: 'g' })
    alias({ userId, previousId: 'p' })
    expect(await deliver('track', { userId, event: 'Paid' })).toEqual({ delivered: true })
    expect(await flush()).toEqual({ delivered: 0, failed: 0 })
    expect(stats()).toMatchObject({ accepted: 7, delivered: 7 })
    const types = net.arrivals.flatMap(({ messages }) => messages.map(({ type }) => type))
    expect(types).toEqual(['identify', 'track', 'page', 'screen', 'group', 'alias', 'track'])
  })

  test.each([-1, NaN, '5', null, 2_147_483_648])('refuses a timeout of %s', (timeout) => {
    const analytics = createClient(scriptedFetch())
    for (const method of ['flush', 'close'] as const) {
      const error = thrownBy(() =>
        Reflect.apply(analytics[method].bind(analytics), undefined, [{ timeout }]),
      )
      expect(error).toBeInstanceOf(OptionError)
      expect(error).toMatchObject({ option: 'timeout' })
      expect((error as Error).message).toContain(`${method}() takes a timeout from 0 to 2147483647`)
    }
  })

  test('is what await using does', async () => {
    const net = scriptedFetch()
    const heard = listen()
    {
      await using analytics = createClient(net)
      trackMany(analytics, 2, 0, heard.as)
    }
    expect(heard.codes).toEqual(['e0: ok', 'e1: ok'])
    const analytics = createClient(net)
    trackMany(analytics, 1)
    await analytics[Symbol.asyncDispose]()
    expect(net.arrivals).toHaveLength(2)
    trackMany(analytics, 1, 0, heard.as)
    await turns()
    expect(heard.codes).toEqual(['e0: ok', 'e1: ok', 'e0: closed'])
  })
})

describe('after close()', () => {
  test('a call does not throw: callback and onFailed get ClosedError', async () => {
    const heard = listen()
    const net = scriptedFetch()
    const analytics = createClient(net, heard.hooks)
    await analytics.close()
    analytics.identify({ userId: 'u', messageId: 'm1' }, heard.as('identify'))
    analytics.alias({ userId: 'u', previousId: 'p', messageId: 'm2' })
    expect(heard.outcomes).toEqual([])
    expect(analytics.stats()).toMatchObject({ accepted: 2, dropped: 2, pending: 0 })
    await turns()
    expect(heard.outcomes).toHaveLength(1)
    expect(heard.outcomes[0]?.error).toBeInstanceOf(ClosedError)
    expect(heard.failed.map(({ error }) => error.message)).toEqual([
      'identify() came after close().',
      'alias() came after close().',
    ])
    expect(heard.failed.map(({ error }) => error instanceof ClosedError)).toEqual([true, true])
    expect(heard.failed.flatMap(({ messages }) => messages)).toEqual([
      { type: 'identify', messageId: 'm1', json: expect.stringContaining('"m1"') as string },
      { type: 'alias', messageId: 'm2', json: expect.stringContaining('"m2"') as string },
    ])
    expect(net.arrivals).toEqual([])
    expect(await analytics.flush()).toEqual({ delivered: 0, failed: 0 })
  })

  test('an invalid call does not throw either', async () => {
    const heard = listen()
    const analytics = createClient(scriptedFetch(), heard.hooks)
    await analytics.close()
    expect(() => {
      analytics.track(INVALID, heard.as('invalid'))
    }).not.toThrow()
    await turns()
    expect(heard.outcomes).toHaveLength(1)
    expect(heard.failed).toHaveLength(1)
  })

  test('what was recorded before, while it closes, is delivered', async () => {
    const collector = await startCollector()
    const gate = held()
    collector.script(gate.reply)
    const heard = listen()
    const analytics = createClient(collector)
    trackMany(analytics, 1, 0, heard.as)
    const closed = analytics.close()
    await collector.arrived(1)
    trackMany(analytics, 1, 1, heard.as)
    gate.release()
    expect(await closed).toEqual({ delivered: 1, failed: 1 })
    expect(heard.codes.sort()).toEqual(['e0: ok', 'e1: closed'])
  })
})
