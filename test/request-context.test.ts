import { AsyncLocalStorage } from 'node:async_hooks'
import { EventEmitter } from 'node:events'
import { readFile } from 'node:fs'
import { createServer } from 'node:http'
import { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { pipeline } from 'node:stream/promises'
import express from 'express'
import fc from 'fast-check'
import fastify from 'fastify'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { ValidationError, type Analytics } from '../src/index.js'
import { createRequestContext, type RequestFields } from '../src/request-context.js'
import { createTestAnalytics } from '../src/testing.js'
import { listening } from './webhook/adapters/listen.js'
import { runModule, thrownBy } from './collector.js'

/** A client without a network, its request context, and what was delivered of each message. */
function setUp(options: Parameters<typeof createTestAnalytics>[0] = {}) {
  const { analytics, messages } = createTestAnalytics(options)
  const request = createRequestContext(analytics)
  const delivered = async () => {
    await analytics.flush()
    return messages.all.map(({ userId, anonymousId, event, context, integrations }) => {
      const rest = Object.entries(context ?? {}).filter(([key]) => key !== 'library')
      return { userId, anonymousId, event, context: Object.fromEntries(rest), integrations }
    })
  }
  return { analytics, messages, request, delivered }
}

/** JavaScript may give a function anything. */
const untyped = (given: unknown) => given as never

describe('inside of a run', () => {
  test('a call of each type has the fields', async () => {
    const { request, messages, analytics } = setUp()
    const context = { ip: '203.0.113.7' }
    const integrations = { All: false, Webhooks: true }
    request.run({ userId: 'u', anonymousId: 'a', context, integrations }, () => {
      request.identify({ traits: { plan: 'pro' } })
      request.track({ event: 'e', properties: { total: 1 } })
      request.page({ name: 'Home' })
      request.screen({ name: 'Home' })
      request.group({ groupId: 'g' })
      request.alias({ previousId: 'p' })
    })
    await analytics.flush()
    expect(messages.all.map(({ type }) => type)).toEqual(
      'identify track page screen group alias'.split(' '),
    )
    for (const message of messages.all) {
      expect(message).toMatchObject({ userId: 'u', anonymousId: 'a', context, integrations })
    }
    expect(messages.all).toMatchObject([
      { traits: { plan: 'pro' } },
      { event: 'e', properties: { total: 1 } },
      { name: 'Home' },
      { name: 'Home' },
      { groupId: 'g' },
      { previousId: 'p' },
    ])
  })

  test('the keys of a call win, those of context and integrations one by one', async () => {
    const { request, delivered } = setUp({
      context: { app: 'shop', locale: 'de', ip: 'of the client' },
      integrations: { Mail: true },
    })
    const fields = {
      userId: 'u',
      context: { ip: '203.0.113.7', traceId: 't1', locale: 'fr' },
      integrations: { Mail: false, Chat: true },
    }
    request.run(fields, () => {
      request.track({
        userId: 'other',
        event: 'e',
        context: { locale: 'en' },
        integrations: { Chat: false },
      })
    })
    expect(await delivered()).toEqual([
      {
        userId: 'other',
        event: 'e',
        anonymousId: undefined,
        context: { app: 'shop', ip: '203.0.113.7', traceId: 't1', locale: 'en' },
        integrations: { Mail: false, Chat: false },
      },
    ])
  })

  test('a key that is undefined takes the value of the outer run away, and that of the options', async () => {
    const { request, delivered } = setUp({ context: { region: 'eu', app: 'shop' } })
    request.run({ userId: 'u', context: { ip: 'i', region: undefined } }, () => {
      request.track({ event: 'outer' })
      request.run({ context: { ip: undefined } }, () => {
        request.track({ event: 'inner' })
      })
      request.set({ context: { ip: undefined, step: 1 } })
      request.track({ event: 'after set' })
    })
    expect((await delivered()).map(({ event, context }) => ({ event, context }))).toEqual([
      { event: 'outer', context: { app: 'shop', ip: 'i' } },
      { event: 'inner', context: { app: 'shop' } },
      { event: 'after set', context: { app: 'shop', step: 1 } },
    ])
  })

  test('a field that a call leaves undefined comes from the run', async () => {
    const { request, delivered } = setUp()
    request.run({ userId: 'u', context: { ip: 'i' } }, () => {
      request.track({ event: 'e', userId: undefined, context: undefined, integrations: undefined })
    })
    expect(await delivered()).toMatchObject([{ userId: 'u', context: { ip: 'i' } }])
  })

  test('a callback hears of the outcome', async () => {
    const { request, delivered } = setUp()
    const heard = vi.fn()
    request.run({ userId: 'u' }, () => {
      request.track({ event: 'e' }, heard)
    })
    await delivered()
    expect(heard.mock.calls).toEqual([[undefined]])
  })

  test('run() gives back what the function gives, and throws what it throws', async () => {
    const { request } = setUp()
    expect(request.run({}, () => 7)).toBe(7)
    expect(await request.run({}, () => Promise.resolve('later'))).toBe('later')
    const failure = new Error('of the function')
    const fail = () => {
      throw failure
    }
    expect(thrownBy(() => request.run({}, fail))).toBe(failure)
  })

  test('the functions need no object before them', async () => {
    const { request, delivered } = setUp()
    const { run, set, track } = request
    run({ userId: 'u' }, () => {
      set({ anonymousId: 'a' })
      track({ event: 'e' })
    })
    expect(await delivered()).toMatchObject([{ userId: 'u', anonymousId: 'a' }])
  })
})

describe('the fields stay with what a run started', () => {
  const hops: [string, (act: () => void) => Promise<unknown>][] = [
    ['a promise', (act) => Promise.resolve().then(act)],
    [
      'an await after an await',
      async (act) => {
        await new Promise((resolve) => setImmediate(resolve))
        await Promise.resolve()
        act()
      },
    ],
    [
      'setTimeout',
      (act) =>
        new Promise<void>((resolve) =>
          setTimeout(() => {
            act()
            resolve()
          }, 0),
        ),
    ],
    [
      'setImmediate',
      (act) =>
        new Promise<void>((resolve) =>
          setImmediate(() => {
            act()
            resolve()
          }),
        ),
    ],
    [
      'process.nextTick',
      (act) =>
        new Promise<void>((resolve) => {
          process.nextTick(() => {
            act()
            resolve()
          })
        }),
    ],
    [
      'queueMicrotask',
      (act) =>
        new Promise<void>((resolve) => {
          queueMicrotask(() => {
            act()
            resolve()
          })
        }),
    ],
    [
      'a callback of the file system',
      (act) =>
        new Promise<void>((resolve) => {
          readFile(import.meta.filename, () => {
            act()
            resolve()
          })
        }),
    ],
    [
      'a stream that is read',
      async (act) => {
        for await (const chunk of Readable.from([act])) (chunk as () => void)()
      },
    ],
    [
      'a stream that is piped',
      (act) =>
        pipeline(Readable.from([act]), async (chunks: AsyncIterable<unknown>) => {
          for await (const chunk of chunks) (chunk as () => void)()
        }),
    ],
    [
      'an event that is emitted inside',
      (act) => {
        const emitter = new EventEmitter().once('event', act)
        return Promise.resolve().then(() => emitter.emit('event'))
      },
    ],
  ]

  test.each(hops)('over %s', async (_, hop) => {
    const { request, delivered } = setUp()
    await Promise.all(
      ['u1', 'u2'].map((userId) =>
        request.run({ userId }, () =>
          hop(() => {
            request.track({ event: 'e' })
          }),
        ),
      ),
    )
    const users = (await delivered()).map(({ userId }) => userId)
    expect(users.sort()).toEqual(['u1', 'u2'])
  })

  test('and end with it', async () => {
    const { request, delivered } = setUp()
    request.run({ userId: 'u' }, () => undefined)
    request.track({ userId: 'own', event: 'e' })
    expect(await delivered()).toMatchObject([{ userId: 'own', context: {} }])
    expect(() => {
      request.track({ event: 'e' })
    }).toThrow(ValidationError)
  })

  test('through 200 requests at the same time, none of which sees fields of another', async () => {
    const { request, delivered } = setUp()
    const turn = () => new Promise((resolve) => setImmediate(resolve))
    const serve = async (i: number) => {
      for (let step = 0; step < i % 5; step++) await turn()
      request.track({ event: `${i} before` })
      await turn()
      request.set({ userId: `u${i}`, context: { user: i } })
      for (let step = 0; step < i % 3; step++) await turn()
      request.track({ event: `${i} after` })
    }
    await Promise.all(
      Array.from({ length: 200 }, (_, i) =>
        request.run({ anonymousId: `a${i}`, context: { traceId: i } }, () => serve(i)),
      ),
    )
    const sent = await delivered()
    expect(sent).toHaveLength(400)
    for (const { userId, anonymousId, event, context } of sent) {
      const [i, when] = event?.split(' ') ?? []
      const isAfter = when === 'after'
      expect({ userId, anonymousId, context }).toEqual({
        userId: isAfter ? `u${i}` : undefined,
        anonymousId: `a${i}`,
        context: isAfter ? { traceId: Number(i), user: Number(i) } : { traceId: Number(i) },
      })
    }
  })
})

describe('set()', () => {
  test('adds fields for the rest of the run, key by key', async () => {
    const { request, delivered } = setUp()
    await request.run({ anonymousId: 'a', context: { ip: 'i', step: 1 } }, async () => {
      request.track({ event: 'before' })
      await Promise.resolve()
      request.set({ userId: 'u', anonymousId: undefined, context: { step: 2 } })
      request.track({ event: 'after' })
    })
    expect(await delivered()).toMatchObject([
      { event: 'before', userId: undefined, anonymousId: 'a', context: { ip: 'i', step: 1 } },
      { event: 'after', userId: 'u', anonymousId: 'a', context: { ip: 'i', step: 2 } },
    ])
  })

  test('reaches what the run started before', async () => {
    const { request, delivered } = setUp()
    await request.run({ anonymousId: 'a' }, async () => {
      const later = new Promise<void>((resolve) => {
        setImmediate(() => {
          request.track({ event: 'e' })
          resolve()
        })
      })
      request.set({ userId: 'u' })
      await later
    })
    expect(await delivered()).toMatchObject([{ userId: 'u', anonymousId: 'a' }])
  })

  test.each([
    ['flush()', (analytics: Analytics) => analytics.flush()],
    ['close()', (analytics: Analytics) => analytics.close()],
    [
      '2,000 calls that are dropped',
      (analytics: Analytics) => {
        for (let i = 0; i < 2_000; i++) analytics.track({ userId: 'u', event: 'private' })
        return Promise.resolve()
      },
    ],
  ])('does not reach the callbacks of others, not by %s', async (_, act) => {
    const beforeSend = (message: { event?: string }) =>
      message.event === 'private' ? null : message
    const { analytics } = setUp({ beforeSend: untyped(beforeSend) })
    const current = new AsyncLocalStorage<string>()
    let seen: unknown = 'not called'
    current.run('alice', () => {
      analytics.track({ userId: 'u', event: 'private' }, () => {
        seen = current.getStore()
      })
    })
    await current.run('bob', () => act(analytics))
    await analytics.flush()
    expect(seen).toBeUndefined()
  })

  test('outside of a run throws an error that says what to do', () => {
    const { request } = setUp()
    expect(() => {
      request.set({ userId: 'u' })
    }).toThrow(
      /^set\(\) was called outside of run\(\): call it in a function that run\(\) started\.$/,
    )
  })
})

describe('a run inside another', () => {
  test('has the fields of both, and its own win and end with it', async () => {
    const { request, delivered } = setUp()
    const outer = { userId: 'outer', context: { ip: 'i', step: 'outer' } }
    await request.run(outer, async () => {
      await request.run({ userId: 'inner', context: { step: 'inner' } }, async () => {
        await Promise.resolve()
        request.set({ anonymousId: 'a' })
        request.track({ event: 'inside' })
      })
      request.track({ event: 'after' })
    })
    expect(await delivered()).toMatchObject([
      { event: 'inside', userId: 'inner', anonymousId: 'a', context: { ip: 'i', step: 'inner' } },
      {
        event: 'after',
        userId: 'outer',
        anonymousId: undefined,
        context: { ip: 'i', step: 'outer' },
      },
    ])
  })

  test('of another client does not concern this one', async () => {
    const one = setUp()
    const two = setUp()
    one.request.run({ userId: 'of one' }, () => {
      two.request.run({ userId: 'of two' }, () => {
        one.request.track({ event: 'e' })
        two.request.track({ event: 'e' })
      })
    })
    expect(await one.delivered()).toMatchObject([{ userId: 'of one' }])
    expect(await two.delivered()).toMatchObject([{ userId: 'of two' }])
  })
})

describe('what was given', () => {
  test('can change later without an effect, nested objects too', async () => {
    const { request, delivered } = setUp()
    const fields = { userId: 'u', context: { page: { path: '/' } }, integrations: { Mail: true } }
    request.run(fields, () => {
      fields.userId = 'changed'
      fields.context.page.path = 'changed'
      fields.integrations.Mail = false
      request.track({ event: 'e' })
    })
    expect(await delivered()).toMatchObject([
      { userId: 'u', context: { page: { path: '/' } }, integrations: { Mail: true } },
    ])
  })

  test('may be frozen, and is not changed', async () => {
    const { request, delivered } = setUp()
    const fields = Object.freeze({ userId: 'u', context: Object.freeze({ ip: 'i' }) })
    const message = Object.freeze({ event: 'e', context: Object.freeze({ locale: 'en' }) })
    request.run(fields, () => {
      request.set(Object.freeze({ context: Object.freeze({ traceId: 't' }) }))
      request.track(message)
    })
    expect(await delivered()).toMatchObject([
      { userId: 'u', context: { ip: 'i', traceId: 't', locale: 'en' } },
    ])
    expect(fields).toEqual({ userId: 'u', context: { ip: 'i' } })
    expect(message).toEqual({ event: 'e', context: { locale: 'en' } })
  })

  test.each(['run', 'set'] as const)('to %s() must be fields of a request', (method) => {
    const { request } = setUp()
    const give = (fields: unknown) =>
      thrownBy(() => {
        if (method === 'run') request.run(untyped(fields), () => undefined)
        else
          request.run({}, () => {
            request.set(untyped(fields))
          })
      }) as ValidationError
    for (const wrong of [undefined, null, 'u', 7, [], new Map()]) {
      expect(give(wrong)).toBeInstanceOf(ValidationError)
      expect(give(wrong).message).toMatch(`${method}() takes a plain object of fields, got `)
    }
    const error = give({ userId: 'u', userID: 'u' })
    expect(error.field).toBe('userID')
    expect(error.message).toBe(
      `${method}() has no field "userID". Its fields are userId, anonymousId, context, integrations.`,
    )
  })
})

describe('a mistake is the client’s to refuse, at the call', () => {
  const fields: [string, unknown][] = [
    ['userId', { userId: 7 }],
    ['userId', { userId: null }],
    ['userId', { userId: '' }],
    ['anonymousId', { anonymousId: ['a'] }],
    ['context', { userId: 'u', context: 'c' }],
    ['context', { userId: 'u', context: new Map() }],
    ['integrations', { userId: 'u', integrations: [] }],
    ['context.big', { userId: 'u', context: { big: 1n } }],
  ]
  test.each(fields)('a wrong %s of a run: %o', (field, wrong) => {
    const { request } = setUp()
    const act = () => {
      request.track({ event: 'e' })
    }
    const error = thrownBy(() => {
      request.run(untyped(wrong), act)
    }) as ValidationError
    expect(error).toBeInstanceOf(ValidationError)
    expect(error.field).toBe(field)
  })

  test.each(['inside', 'outside'])('%s of a run, no identity from anywhere', (where) => {
    const { request } = setUp()
    const act = () => {
      request.track({ event: 'e' })
    }
    const fields: RequestFields = { context: { ip: 'i' } }
    const error = thrownBy(() => {
      if (where === 'inside') request.run(fields, act)
      else act()
    }) as ValidationError
    expect(error).toBeInstanceOf(ValidationError)
    expect(error.field).toBe('userId')
    expect(error.message).toMatch(/needs a userId or an anonymousId, a non-empty string/)
  })

  test.each([undefined, null, 'e', ['e']])('a message that is none: %s', (message) => {
    const { request } = setUp()
    const act = () => {
      request.track(untyped(message))
    }
    const error = thrownBy(() => {
      request.run({ userId: 'u' }, act)
    }) as ValidationError
    expect(error.field).toBe('message')
  })

  test('whatever the client refuses, at random, with the same words', async () => {
    const methods = ['identify', 'track', 'page', 'screen', 'group', 'alias'] as const
    const known = ['event', 'properties', 'traits', 'name', 'groupId', 'previousId', 'timestamp']
    const wrong = ['propertys', 'userID', 'user_id', 'Event', 'nothing']
    const some = fc.constantFrom('a', '', 1, null, undefined, {}, { total: 42 })
    const given = fc.record({
      method: fc.constantFrom(...methods),
      fields: fc.dictionary(fc.constantFrom(...known, ...known, ...wrong), some, { maxKeys: 4 }),
      isInstance: fc.boolean(),
    })
    const { request, messages, analytics } = setUp()
    const refusals = new Set<string>()
    await fc.assert(
      fc.asyncProperty(given, async ({ method, fields, isInstance }) => {
        const prototype = isInstance ? {} : Object.prototype
        const own = Object.assign(Object.create(prototype) as object, fields)
        const outcomeOf = async (act: () => void) => {
          const before = messages.all.length
          try {
            act()
          } catch (error) {
            const { field, message } = error as ValidationError
            refusals.add(message)
            return { field, message }
          }
          await analytics.flush()
          return messages.all
            .slice(before)
            .map((sent) => ({ ...sent, messageId: '', timestamp: '' }))
        }
        const inside = await outcomeOf(() => {
          request.run({ userId: 'u' }, () => {
            request[method](untyped(own))
          })
        })
        const outside = await outcomeOf(() => {
          analytics[method](untyped(Object.assign(own, { userId: 'u' })))
        })
        expect(inside).toEqual(outside)
      }),
      { numRuns: 400 },
    )
    expect(refusals.size).toBeGreaterThan(20)
  })

  test('what is no client', () => {
    expect(() => createRequestContext(untyped(undefined))).toThrow(
      'createRequestContext() takes the client that records, got undefined.',
    )
  })

  test.each(['userId', 'context', 'properties'])(
    'a getter of %s that throws, which onInvalid: report tells as the client does',
    async (field) => {
      const onFailed = vi.fn()
      const { request, delivered } = setUp({ onInvalid: 'report', onFailed })
      const message = { event: 'e' }
      const get = () => {
        throw new Error('getter')
      }
      request.run({ userId: 'u' }, () => {
        request.track(Object.defineProperty(message, field, { get }))
      })
      expect(await delivered()).toEqual([])
      expect(onFailed).toHaveBeenCalledOnce()
      const [{ error }] = onFailed.mock.lastCall as [{ error: ValidationError }]
      expect(error.field).toBe('message')
      expect(error.message).toBe('track() could not read its message: getter')
    },
  )

  test.each([undefined, null, 5])('a run whose function is %s', (act) => {
    const { request } = setUp()
    const error = thrownBy(() => {
      request.run({}, untyped(act))
    }) as ValidationError
    expect(error).toBeInstanceOf(ValidationError)
    expect(error.message).toBe(`run() takes a function after the fields, got ${act}.`)
  })
})

describe('a server', () => {
  const post = async (url: string, visitor: string) => {
    const headers = { 'X-Visitor': visitor, 'Content-Type': 'application/json' }
    const body = JSON.stringify({ total: 42 })
    expect((await fetch(url, { method: 'POST', headers, body })).status).toBe(201)
  }
  const visitors = Array.from({ length: 20 }, (_, i) => `v${i}`)

  test.each(['before', 'after'])(
    'of Express, with the middleware %s the parser of bodies',
    async (order) => {
      const { request, delivered } = setUp()
      const context: express.RequestHandler = (req, _res, next) => {
        request.run({ anonymousId: req.get('X-Visitor'), context: { path: req.path } }, next)
      }
      const app = express()
      app.use(...(order === 'before' ? [context, express.json()] : [express.json(), context]))
      app.post('/orders', async (req, res) => {
        await new Promise((resolve) => setImmediate(resolve))
        request.track({ event: 'Order Completed', properties: req.body as { total: number } })
        res.sendStatus(201)
      })
      const { url, close } = await listening(createServer(app as never).listen(0))
      onTestFinished(async () => {
        await close()
      })
      await Promise.all(visitors.map((visitor) => post(new URL('/orders', url).href, visitor)))
      const sent = await delivered()
      expect(sent.map(({ anonymousId }) => anonymousId).sort()).toEqual(visitors.toSorted())
      expect(sent.every(({ context: { path } }) => path === '/orders')).toBe(true)
    },
  )

  test.each(['onRequest', 'preHandler'])('of Fastify, with the hook %s', async (hook) => {
    const { request, delivered } = setUp()
    const app = fastify()
    // Its types name each hook on its own.
    app.addHook(hook as 'onRequest', (req, _reply, done) => {
      request.run({ anonymousId: req.headers['x-visitor'] as string }, done)
    })
    app.post('/orders', async (req, reply) => {
      await new Promise((resolve) => setImmediate(resolve))
      request.track({ event: 'Order Completed', properties: req.body as { total: number } })
      return reply.code(201).send()
    })
    const url = await app.listen({ port: 0, host: '127.0.0.1' })
    onTestFinished(() => app.close())
    await Promise.all(visitors.map((visitor) => post(new URL('/orders', url).href, visitor)))
    const sent = await delivered()
    expect(sent.map(({ anonymousId }) => anonymousId).sort()).toEqual(visitors.toSorted())
  })

  test('of Node alone, whose body is read inside of the run', async () => {
    const { request, delivered } = setUp()
    const { url, close } = await listening(
      createServer((req, res) => {
        void request.run({ anonymousId: String(req.headers['x-visitor']) }, async () => {
          const { total } = JSON.parse(await text(req)) as { total: number }
          request.track({ event: 'Order Completed', properties: { total } })
          res.writeHead(201).end()
        })
      }).listen(0),
    )
    onTestFinished(async () => {
      await close()
    })
    await Promise.all(visitors.map((visitor) => post(url, visitor)))
    expect((await delivered()).map(({ anonymousId }) => anonymousId).sort()).toEqual(
      visitors.toSorted(),
    )
  })
})

test('a runtime without AsyncLocalStorage gets an error that says what to do', async () => {
  const source = `
    import { createRequestContext } from 'hookline/request-context'
    try {
      createRequestContext({})
    } catch (error) {
      console.log(error.message)
    }
  `
  const without = 'data:text/javascript,process.getBuiltinModule=undefined'
  const { code, stdout, stderr } = await runModule(source, { flags: ['--import', without] })
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
  expect(stdout).toMatch(/needs AsyncLocalStorage.+nodejs_compat/)
})

test('a client that copies the message gets the fields, too', () => {
  const recorded: unknown[] = []
  const record = (message: object) => {
    recorded.push({ ...message, plan: 'pro' }, Object.assign({}, message), { ...message })
    recorded.push(JSON.parse(JSON.stringify(message)))
  }
  const calls = { identify: record, track: record, page: record, screen: record, group: record }
  const request = createRequestContext({ ...calls, alias: record })
  const context = { ip: '192.0.2.1' }
  const integrations = { All: false }
  request.run({ userId: 'u', context, integrations }, () => {
    request.track({ event: 'e', context: { locale: 'de' } })
  })
  const whole = {
    event: 'e',
    context: { ip: '192.0.2.1', locale: 'de' },
    userId: 'u',
    integrations,
  }
  expect(recorded).toEqual([{ ...whole, plan: 'pro' }, whole, whole, whole])
  // A spread of an undefined field would replace what another decorator has added.
  expect(Object.keys(recorded[1] as object).sort()).toEqual(Object.keys(whole).sort())
})

test('a message may inherit its fields, or compute them: the client reads the same as outside of a run', async () => {
  class Ordered {
    readonly #total = 42
    readonly event: string
    constructor(event: string) {
      this.event = event
    }
    get properties() {
      return { total: this.#total }
    }
    get anonymousId() {
      return `visitor of ${this.event}`
    }
  }
  const inherits = Object.assign(
    Object.create({ properties: { plan: 'pro' }, timestamp: '2020-01-01T00:00:00.000Z' }) as object,
    { event: 'Inherited' },
  )
  const frozen = Object.freeze({ event: 'Frozen', context: { page: '/' } })
  const { request, messages, analytics } = setUp()
  request.run({ userId: 'u', anonymousId: 'a', context: { ip: '203.0.113.7' } }, () => {
    for (const message of [new Ordered('Ordered'), inherits, frozen])
      request.track(untyped(message))
  })
  await analytics.flush()
  expect(messages.all).toMatchObject([
    { event: 'Ordered', userId: 'u', anonymousId: 'visitor of Ordered', properties: { total: 42 } },
    {
      event: 'Inherited',
      anonymousId: 'a',
      properties: { plan: 'pro' },
      timestamp: '2020-01-01T00:00:00.000Z',
    },
    { event: 'Frozen', context: { ip: '203.0.113.7', page: '/' } },
  ])
})
