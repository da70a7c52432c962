import dns from 'node:dns'
import {
  createServer as createHttpServer,
  type OutgoingHttpHeaders,
  type ServerResponse,
} from 'node:http'
import { createServer, type AddressInfo } from 'node:net'
import { json } from 'node:stream/consumers'
import { brotliCompressSync, gzipSync } from 'node:zlib'
import { fetch as crossFetch } from 'cross-fetch'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import type { Fetch, FetchResponse } from '../src/index.js'
import {
  createClient,
  events,
  held,
  IN_TIME,
  listen,
  names,
  pass,
  passUntil,
  runModule,
  scriptedFetch,
  sized,
  startCollector,
  trackMany,
  turns,
  until,
  useFakeClock,
  type Collector,
  type Reply,
} from './collector.js'
import { listening } from './webhook/adapters/listen.js'

/** A fetch that does as given at first, and then answers 200. */
function oddFetch(act: () => unknown) {
  const net = scriptedFetch()
  let calls = 0
  const fetch: Fetch = (url, init) => {
    if (calls++ > 0) return net.fetch(url, init)
    return act() as Promise<FetchResponse>
  }
  return { ...net, fetch, calls: () => calls }
}

/** The default fetch, and how many answers it saw start. */
function countHeads() {
  let heads = 0
  const fetch: Fetch = async (url, init) => {
    const response = await crossFetch(url, init)
    heads++
    return response
  }
  return { fetch, heads: () => heads }
}

/** A fetch, and the signals that it was given. */
function noteSignals(real: Fetch) {
  const signals: AbortSignal[] = []
  const fetch: Fetch = (url, init) => {
    signals.push(init.signal as AbortSignal)
    return real(url, init)
  }
  return { fetch, signals }
}

/** A server that answers requests with these bytes, the last ones again and again, and ends the connection. */
async function answering(...answers: string[]) {
  let requests = 0
  const server = createServer((socket) => {
    socket.on('error', () => undefined)
    socket.once('data', () => {
      socket.end(answers[requests++] ?? answers.at(-1) ?? '')
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void server.close())
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return {
    url,
    get requests() {
      return requests
    },
  } as Collector & { requests: number }
}

async function unhandledDuring(act: () => Promise<void>): Promise<unknown[]> {
  const unhandled: unknown[] = []
  const note = (reason: unknown) => unhandled.push(reason)
  process.on('unhandledRejection', note)
  process.on('uncaughtException', note)
  try {
    await act()
    await turns()
  } finally {
    process.off('unhandledRejection', note)
    process.off('uncaughtException', note)
  }
  return unhandled
}

/** A body's part with chunked transfer. */
const chunkOf = (text: string) => `${text.length.toString(16)}\r\n${text}\r\n`

describe('the deadline holds', () => {
  test('for a server that never answers: the request is ended and tried again', async () => {
    useFakeClock()
    const collector = await startCollector()
    collector.script('silence')
    const heard = listen()
    const analytics = createClient(collector, { ...heard.hooks, flushAt: 1 })
    trackMany(analytics, 1, 0, heard.as)
    await collector.arrived(1)
    await pass(10_000)
    await pass(500)
    await collector.arrived(2)
    await until(() => heard.outcomes.length === 1)
    expect(heard.codes).toEqual(['e0: ok'])
    expect(heard.delivered[0]?.attempts).toBe(2)
    await analytics.close()
    await collector.disconnected()
  })

  test('for a TLS handshake that never ends', async () => {
    useFakeClock()
    let connections = 0
    const server = createServer((socket) => {
      connections++
      socket.on('error', () => undefined)
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    onTestFinished(() => {
      server.close()
    })
    const { port } = server.address() as AddressInfo
    const heard = listen()
    const analytics = createClient(scriptedFetch(), {
      ...heard.hooks,
      fetch: undefined,
      endpoint: `https://127.0.0.1:${port}`,
      maxRetries: 1,
      flushAt: 1,
    })
    trackMany(analytics, 1, 0, heard.as)
    await until(() => connections === 1)
    await pass(10_000)
    await pass(500)
    await until(() => connections === 2)
    await pass(10_000)
    expect(heard.codes).toEqual(['e0: retries_exhausted'])
    expect((heard.failed[0]?.error.cause as Error).message).toBe('no answer within 10000 ms')
  })

  test.each<Reply>(['headers only', 'drip'])(
    'for an answer that does not end (%s): it is lost, and the batch is sent again',
    async (reply) => {
      useFakeClock()
      const collector = await startCollector()
      collector.script(reply)
      const heard = listen()
      const { fetch, heads } = countHeads()
      const analytics = createClient(collector, { ...heard.hooks, fetch, flushAt: 1 })
      trackMany(analytics, 1, 0, heard.as)
      await until(() => heads() === 1)
      await pass(9_999)
      expect(heard.codes).toEqual([])
      await pass(1)
      await collector.disconnected()
      await passUntil(() => heard.outcomes.length === 1)
      expect(heard.codes).toEqual(['e0: ok'])
      expect(collector.arrivals).toHaveLength(2)
    },
  )

  test('for a body that comes too late: the next answers name the messages that are refused', async () => {
    let requests = 0
    const server = createHttpServer((request, response) => {
      void json(request).then((given) => {
        const { batch } = given as { batch: { event: string }[] }
        const index = batch.findIndex(({ event }) => event === 'e0')
        const rejected = index < 0 ? [] : [{ index, code: 'bad', message: 'no' }]
        response.writeHead(200, { 'Content-Type': 'application/json' })
        if (++requests > 1) response.end(JSON.stringify({ rejected }))
        else response.flushHeaders()
      })
    })
    const { url, close } = await listening(server.listen(0))
    onTestFinished(() => void close())
    const heard = listen()
    const options = { ...IN_TIME, fetch: undefined, endpoint: url, timeout: 200 }
    const analytics = createClient(scriptedFetch(), options)
    trackMany(analytics, 2, 0, heard.as)
    await analytics.flush()
    expect(heard.codes.sort()).toEqual(['e0: rejected', 'e1: ok'])
  })

  test('for a body that comes too late: the next one is smaller, as after a timeout', async () => {
    const sizes: number[] = []
    const server = createHttpServer((request, response) => {
      void json(request).then((batch) => {
        const { length } = (batch as { batch: unknown[] }).batch
        sizes.push(length)
        response.writeHead(200).flushHeaders()
        setTimeout(() => response.end('{}'), length * 20)
      })
    })
    const { url, close } = await listening(server.listen(0))
    onTestFinished(() => void close())
    const options = { ...IN_TIME, fetch: undefined, endpoint: url, timeout: 500, flushAt: 100 }
    const analytics = createClient(scriptedFetch(), options)
    trackMany(analytics, 100)
    expect(await analytics.flush()).toEqual({ delivered: 100, failed: 0 })
    expect(sizes[0]).toBe(100)
    expect(sizes[1]).toBeLessThan(100)
  })

  test('for a chunked answer that its connection ends: the global fetch of Node 20 does not tell it', async () => {
    const whole = JSON.stringify({ rejected: [{ index: 0, code: 'bad', message: 'no' }] })
    const head = 'HTTP/1.1 200 OK\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n'
    const cut = whole.slice(0, 20)
    let requests = 0
    const server = createHttpServer((request, { socket }) => {
      request.resume().on('end', () => {
        socket?.end(head + (++requests === 1 ? chunkOf(cut) : `${chunkOf(whole)}0\r\n\r\n`))
      })
    })
    const { url, close } = await listening(server.listen(0))
    onTestFinished(() => void close())
    const heard = listen()
    const options = { ...IN_TIME, fetch: globalThis.fetch, endpoint: url }
    const analytics = createClient(scriptedFetch(), options)
    trackMany(analytics, 2, 0, heard.as)
    await analytics.flush()
    expect(heard.codes.sort()).toEqual(['e0: rejected', 'e1: ok'])
  })

  test.each([
    ['timeout', { timeout: 700 }, 700],
    ['the default', {}, 10_000],
  ])('for a fetch that ignores its signal: %s', async (_, options, ms) => {
    useFakeClock()
    const signals: AbortSignal[] = []
    const net = scriptedFetch((__, { signal }) => {
      signals.push(signal)
      return 'hang'
    })
    const analytics = createClient(net, { ...options, flushAt: 1 })
    trackMany(analytics, 1)
    await pass(ms - 1)
    expect(signals.map(({ aborted }) => aborted)).toEqual([false])
    await pass(1)
    expect(signals.map(({ aborted }) => aborted)).toEqual([true])
    await pass(500)
    expect(events(...net.arrivals)).toEqual(['e0', 'e0'])
    expect(analytics.stats()).toMatchObject({ delivered: 1, pending: 0 })
  })

  test('for a body that never comes: a 503 is a 503, with its Retry-After', async () => {
    useFakeClock()
    const endless = {
      status: 503,
      headers: new Headers({ 'Retry-After': '60' }),
      body: new ReadableStream(),
      text: () => new Promise<never>(() => undefined),
    }
    const net = oddFetch(() => Promise.resolve(endless))
    const analytics = createClient(net, { flushAt: 1 })
    trackMany(analytics, 1)
    await pass(10_000 + 59_999)
    expect(net.calls()).toBe(1)
    await pass(1)
    expect(net.calls()).toBe(2)
    expect(analytics.stats().delivered).toBe(1)
  })

  test('and an answer that comes after it changes nothing', async () => {
    useFakeClock()
    const late = held()
    const heard = listen()
    const net = scriptedFetch(late.reply as never, 403)
    const analytics = createClient(net, { ...heard.hooks, flushAt: 1, timeout: 1_000 })
    trackMany(analytics, 1, 0, heard.as)
    await pass(2_000)
    expect(heard.codes).toEqual(['e0: rejected'])
    late.release(200)
    await turns()
    expect(heard.outcomes).toHaveLength(1)
    expect(analytics.stats()).toMatchObject({ delivered: 0, rejected: 1, pending: 0 })
  })

  test('no longer than the request: its timer goes with the answer', async () => {
    useFakeClock()
    const analytics = createClient(scriptedFetch(), { flushAt: 1 })
    trackMany(analytics, 3)
    await turns()
    expect(analytics.stats().delivered).toBe(3)
    await pass(5_000)
    expect(vi.getTimerCount()).toBe(0)
  })
})

describe('a connection that fails', () => {
  /** What is told of a message for an endpoint that nobody listens at. */
  async function failureAt(host: string, fetch?: Fetch): Promise<string> {
    const server = createServer()
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const { port } = server.address() as AddressInfo
    await new Promise((resolve) => server.close(resolve))
    const heard = listen()
    const endpoint = `http://${host}:${port}`
    const options = { ...heard.hooks, endpoint, maxRetries: 0, ...(fetch && { fetch }) }
    const analytics = createClient(scriptedFetch(), { fetch: undefined, ...options })
    trackMany(analytics, 1)
    await analytics.flush()
    return heard.failed[0]?.error.message.replaceAll(String(port), 'PORT') ?? ''
  }

  /** A host with two addresses, as localhost has on most machines. */
  function useTwoAddresses(): void {
    const addresses = [
      { address: '127.0.0.1', family: 4 },
      { address: '127.0.0.2', family: 4 },
    ]
    type Done = (error: null, found: unknown, family?: number) => void
    const lookup = (_: string, options: { all?: boolean } | Done, done?: Done) => {
      const isAll = typeof options === 'object' && options.all === true
      const tell = typeof options === 'function' ? options : done
      process.nextTick(() => {
        if (isAll) tell?.(null, addresses)
        else tell?.(null, '127.0.0.1', 4)
      })
    }
    const spy = vi.spyOn(dns, 'lookup').mockImplementation(lookup as never)
    onTestFinished(() => {
      spy.mockRestore()
    })
  }

  test('says why, by the default fetch and by the global one', async () => {
    const refused = 'connect ECONNREFUSED 127.0.0.1:PORT'
    expect(await failureAt('127.0.0.1')).toContain(`failed, reason: ${refused}`)
    expect(await failureAt('127.0.0.1', globalThis.fetch)).toContain(`fetch failed: ${refused}`)
    expect(await failureAt('no-such-host.invalid', globalThis.fetch)).toMatch(
      /fetch failed: getaddrinfo E\w+ no-such-host.invalid/,
    )
  })

  test('says why for each address of a host', async () => {
    useTwoAddresses()
    expect(await failureAt('two.example')).toMatch(/failed, reason: ECONNREFUSED$/)
    expect(await failureAt('two.example', globalThis.fetch)).toMatch(
      /fetch failed: connect ECONNREFUSED 127.0.0.1:PORT, connect ECONNREFUSED 127.0.0.2:PORT$/,
    )
  })

  test.each<[string, unknown]>([
    ['the same text', new Error('x failed')],
    ['no message', new Error('')],
    ['no error', 'x'],
    ['null', null],
    ['a list of nothing', new AggregateError([])],
  ])('with %s as its cause keeps its own words', async (_, cause) => {
    const fetch = () => Promise.reject(new Error('x failed', { cause }))
    expect(await failureAt('127.0.0.1', fetch)).toMatch(/x failed$/)
  })
})

describe('an injected fetch', () => {
  const failing: [string, () => unknown][] = [
    [
      'throws',
      () => {
        throw new Error('sync')
      },
    ],
    [
      'throws what is no error',
      () => {
        // eslint-disable-next-line @typescript-eslint/only-throw-error
        throw 'sync'
      },
    ],
    // eslint-disable-next-line @typescript-eslint/prefer-promise-reject-errors
    ['rejects with nothing', () => Promise.reject()],
    ['gives undefined', () => undefined],
    ['resolves to undefined', () => Promise.resolve(undefined)],
    ['resolves to null', () => Promise.resolve(null)],
    ['resolves to a string', () => Promise.resolve('ok')],
    ['resolves to an object without a status', () => Promise.resolve({})],
    ['resolves to a status that is no number', () => Promise.resolve({ status: 'fine' })],
    [
      'resolves to what throws when it is read',
      () =>
        Promise.resolve({
          get status() {
            throw new Error('getter')
          },
        }),
    ],
    ['resolves to an error of the network', () => Promise.resolve(Response.error())],
    ['resolves to a 503 without headers', () => Promise.resolve({ status: 503 })],
    [
      'resolves to a 503 whose headers throw',
      () =>
        Promise.resolve({
          status: 503,
          headers: {
            get: () => {
              throw new Error('headers')
            },
          },
          text: () => Promise.resolve(''),
        }),
    ],
    [
      'resolves to a 503 without a text',
      () => Promise.resolve({ status: 503, headers: new Headers() }),
    ],
    [
      'resolves to a 503 whose text is none',
      () =>
        Promise.resolve({
          status: 503,
          headers: new Headers(),
          text: () => Promise.resolve(undefined),
        }),
    ],
  ]
  test.each(failing)('that %s is tried again', async (_, act) => {
    useFakeClock()
    const heard = listen()
    const net = oddFetch(act)
    const unhandled = await unhandledDuring(async () => {
      const analytics = createClient(net, { ...heard.hooks, flushAt: 2 })
      trackMany(analytics, 2, 0, heard.as)
      await pass(600)
      expect(analytics.stats()).toMatchObject({ delivered: 2, pending: 0 })
    })
    expect(unhandled).toEqual([])
    expect(net.calls()).toBe(2)
    expect(heard.codes).toEqual(['e0: ok', 'e1: ok'])
  })

  test('that resolves to nothing is named in the error', async () => {
    const heard = listen()
    const net = oddFetch(() => Promise.resolve(undefined))
    const analytics = createClient(net, { ...heard.hooks, maxRetries: 0 })
    trackMany(analytics, 1)
    await analytics.flush()
    expect(heard.failed[0]?.error.message).toContain(
      'fetch must resolve to a response with a status, got undefined',
    )
  })

  test('that resolves to an error of the network is named in the error', async () => {
    const heard = listen()
    const net = oddFetch(() => Promise.resolve(Response.error()))
    const analytics = createClient(net, { ...heard.hooks, maxRetries: 0 })
    trackMany(analytics, 1)
    await analytics.flush()
    expect(heard.failed[0]?.error).toMatchObject({
      code: 'retries_exhausted',
      message:
        'Given up after 1 attempts: fetch gave no answer, but a response of the type "error"',
    })
  })

  const readers: [string, (response: Response) => unknown][] = [
    ['has read the body', (response) => response.text()],
    ['is reading the body', (response) => void response.text()],
    ['keeps a reader of the body', (response) => response.body?.getReader()],
  ]
  test.each(readers)(
    'that %s claims nothing about the delivery, and sends nothing again',
    async (_, read) => {
      const collector = await startCollector()
      const rejected = [{ index: 0, code: 'invalid', message: 'no' }]
      collector.otherwise({ body: JSON.stringify({ rejected }) })
      const heard = listen()
      const fetch: Fetch = async (url, init) => {
        const response = await globalThis.fetch(url, init)
        await read(response)
        return response
      }
      const analytics = createClient(collector, { ...heard.hooks, fetch, flushAt: 2 })
      trackMany(analytics, 2, 0, heard.as)
      expect(await analytics.flush()).toEqual({ delivered: 0, failed: 2 })
      expect(heard.codes).toEqual(['e0: body_consumed', 'e1: body_consumed'])
      expect(heard.failed[0]?.error.message).toBe(
        'The endpoint answered 200, and nobody knows which messages it refused. fetch must resolve to a response whose body was not read: read response.clone().',
      )
      expect(collector.arrivals).toHaveLength(1)
    },
  )

  test('that has read a body without a byte, or a clone of it, delivers', async () => {
    const collector = await startCollector()
    collector.script({ headers: { 'Content-Length': '0' }, body: '' }, 204, 200)
    const fetch: Fetch = async (url, init) => {
      const response = await globalThis.fetch(url, init)
      await (collector.arrivals.length < 3 ? response : response.clone()).text()
      return response
    }
    const analytics = createClient(collector, { fetch })
    for (const delivered of [1, 2, 3]) {
      trackMany(analytics, 1)
      await analytics.flush()
      expect(analytics.stats()).toMatchObject({ delivered, dropped: 0 })
    }
  })

  test('that gives the same response each time delivers: the client itself has read it', async () => {
    const response = new Response('{"success":true}')
    const analytics = createClient(oddFetch(() => Promise.resolve(response)))
    for (const delivered of [1, 2, 3]) {
      trackMany(analytics, 1)
      await analytics.flush()
      expect(analytics.stats()).toMatchObject({ delivered, dropped: 0 })
    }
  })

  test.each([undefined, { 'Content-Length': '16' }])(
    'that gives several clients the same response, with the headers %o, delivers for each of them',
    async (headers) => {
      const response = new Response('{"success":true}', headers && { headers })
      for (let client = 0; client < 3; client++) {
        const analytics = createClient(oddFetch(() => Promise.resolve(response)))
        trackMany(analytics, 1)
        expect(await analytics.close()).toMatchObject({ delivered: 1, failed: 0 })
      }
    },
  )

  test('asks for no compression, so that an answer without a body has none at all', async () => {
    const asked: unknown[] = []
    const server = createHttpServer((request, response) => {
      const encodings = request.headers['accept-encoding'] ?? ''
      asked.push(encodings)
      request.resume().on('end', () => {
        if (!encodings.includes('gzip')) response.end()
        else response.setHeader('Content-Encoding', 'gzip').end(gzipSync(''))
      })
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    onTestFinished(() => void server.close())
    const { port } = server.address() as AddressInfo
    const fetch: Fetch = (url, init) => globalThis.fetch(url, init)
    const analytics = createClient({ url: `http://127.0.0.1:${port}` } as Collector, { fetch })
    trackMany(analytics, 10)
    expect(await analytics.close()).toMatchObject({ delivered: 10, failed: 0 })
    expect(asked).toEqual(['identity'])
  })

  test('that has read the body of a refusal rejects by the status', async () => {
    const collector = await startCollector()
    collector.otherwise(403)
    const heard = listen()
    const fetch: Fetch = async (url, init) => {
      const response = await globalThis.fetch(url, init)
      await response.text()
      return response
    }
    const analytics = createClient(collector, { ...heard.hooks, fetch })
    trackMany(analytics, 1, 0, heard.as)
    await analytics.flush()
    expect(heard.codes).toEqual(['e0: rejected'])
  })

  const taken: [string, () => unknown][] = [
    ['only a status', () => ({ status: 200 })],
    ['no text', () => ({ status: 200, headers: new Headers() })],
    [
      'a text that is none',
      () => ({ status: 200, headers: new Headers(), text: () => Promise.resolve(undefined) }),
    ],
    [
      'a text that rejects',
      () => ({ status: 200, headers: new Headers(), text: () => Promise.reject(new Error('x')) }),
    ],
    [
      'a body of text',
      () => ({
        status: 200,
        headers: new Headers(),
        body: (function* () {
          yield 'no bytes'
        })(),
        text: () => Promise.resolve(''),
      }),
    ],
  ]
  test.each(taken)('that resolves to a 200 with %s delivers', async (_, act) => {
    const net = oddFetch(() => Promise.resolve(act()))
    const heard = listen()
    const unhandled = await unhandledDuring(async () => {
      const analytics = createClient(net, { ...heard.hooks, flushAt: 2 })
      trackMany(analytics, 2, 0, heard.as)
      await turns()
      expect(analytics.stats()).toMatchObject({ delivered: 2, pending: 0 })
    })
    expect(unhandled).toEqual([])
    expect(heard.codes).toEqual(['e0: ok', 'e1: ok'])
  })

  test.each([302, 403])('that resolves to a bare %i rejects', async (status) => {
    const heard = listen()
    const net = oddFetch(() => Promise.resolve({ status }))
    const unhandled = await unhandledDuring(async () => {
      const analytics = createClient(net, { ...heard.hooks, flushAt: 2 })
      trackMany(analytics, 2, 0, heard.as)
      await turns()
      expect(analytics.stats()).toMatchObject({ rejected: 2, pending: 0 })
    })
    expect(unhandled).toEqual([])
    expect(heard.codes).toEqual(['e0: rejected', 'e1: rejected'])
  })

  test('is given the standard’s arguments, and no others', async () => {
    const fetch = vi.fn<Fetch>(() => Promise.resolve(new Response('{}')))
    const analytics = createClient({ ...scriptedFetch(), fetch }, { endpoint: 'http://c.example' })
    trackMany(analytics, 1)
    await analytics.flush()
    const [[url, init] = []] = fetch.mock.calls
    expect(url).toBe('http://c.example/v1/batch')
    expect(Object.keys(init ?? {}).sort()).toEqual([
      'body',
      'headers',
      'method',
      'redirect',
      'signal',
    ])
    expect(init).toMatchObject({ method: 'POST', redirect: 'manual' })
    expect(init?.body).toBeInstanceOf(Uint8Array)
    expect(init?.signal).toBeInstanceOf(AbortSignal)
  })

  test('may be the global one', async () => {
    const collector = await startCollector()
    collector.script({ status: 302, headers: { Location: '/elsewhere' } })
    const heard = listen()
    const analytics = createClient(collector, { ...heard.hooks, fetch: globalThis.fetch })
    trackMany(analytics, 1)
    await analytics.flush()
    trackMany(analytics, 2, 1)
    expect(await analytics.flush()).toEqual({ delivered: 2, failed: 0 })
    expect(heard.failed[0]?.error.message).toContain('Redirects are not followed')
    expect(collector.arrivals.map(({ path }) => path)).toEqual(['/v1/batch', '/v1/batch'])
  })
})

describe('an answer', () => {
  test('without end is cut off, and its connection with it', async () => {
    const collector = await startCollector()
    collector.script('flood')
    const analytics = createClient(collector)
    trackMany(analytics, 1)
    expect(await analytics.flush()).toEqual({ delivered: 1, failed: 0 })
    await collector.disconnected()
  })

  test('that is long but says its length is not read to the end either', async () => {
    const collector = await startCollector()
    const body = 'y'.repeat(9_000_000)
    collector.script({ body, headers: { 'Content-Length': String(body.length) } })
    const { fetch, signals } = noteSignals(crossFetch)
    const analytics = createClient(collector, { fetch })
    trackMany(analytics, 1)
    expect(await analytics.flush()).toEqual({ delivered: 1, failed: 0 })
    expect(signals.map(({ aborted }) => aborted)).toEqual([true])
    await collector.disconnected()
  })

  /** A long answer that says that it has few bytes, and how much of it was read. */
  function compressed(characters: string, times: number) {
    const chunk = new TextEncoder().encode(characters.repeat(65_536))
    const read = { bytes: 0, isCancelled: false }
    const body = new ReadableStream(
      {
        pull: (controller) => {
          if (read.bytes >= chunk.length * times) {
            controller.close()
            return
          }
          read.bytes += chunk.length
          controller.enqueue(chunk)
        },
        cancel: () => {
          read.isCancelled = true
        },
      },
      { highWaterMark: 0 },
    )
    const headers = { 'Content-Encoding': 'gzip', 'Content-Length': '389000' }
    const net = oddFetch(() => Promise.resolve(new Response(body, { headers })))
    return { net, read }
  }

  test.each(['x', '€'])(
    'that was compressed is read to 8 MiB, whatever its Content-Length says (%s)',
    async (characters) => {
      const { net, read } = compressed(characters, 1_000)
      const analytics = createClient(net)
      trackMany(analytics, 1)
      expect(await analytics.flush()).toEqual({ delivered: 1, failed: 0 })
      expect(read.isCancelled).toBe(true)
      expect(read.bytes).toBeGreaterThan(8_388_608)
      expect(read.bytes).toBeLessThanOrEqual(8_388_608 + 65_536 * 3)
    },
  )

  test('that the global fetch inflates is not inflated to the end', { tags: 'long' }, async () => {
    const zipped = gzipSync(Buffer.alloc(100_000_000, ' '))
    const server = createHttpServer((request, response) => {
      request.resume().on('end', () => {
        const headers = { 'Content-Encoding': 'gzip', 'Content-Length': zipped.length }
        response.writeHead(200, headers).end(zipped)
      })
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    onTestFinished(() => void server.close())
    const { fetch, signals } = noteSignals(globalThis.fetch)
    const { port } = server.address() as AddressInfo
    const endpoint = `http://127.0.0.1:${port}`
    const analytics = createClient({ ...scriptedFetch(), fetch }, { endpoint })
    trackMany(analytics, 1)
    expect(await analytics.flush()).toEqual({ delivered: 1, failed: 0 })
    expect(signals.map(({ aborted }) => aborted)).toEqual([true])
  })

  test.each([
    '<!DOCTYPE html>\n<title>Log in</title>',
    '\n<HTML lang="en">',
    '<!-- a comment --><!doctype html>',
    '<head><title>Log in</title></head>',
    '<meta http-equiv="refresh" content="0;url=/login">',
    '<script>location = "/login"</script>',
  ])(
    'that is a page of HTML is a failed attempt, since no endpoint of calls answers so: %j',
    async (body) => {
      const collector = await startCollector()
      collector.script({ status: 200, body })
      const analytics = createClient(collector)
      trackMany(analytics, 1)
      expect(await analytics.flush()).toEqual({ delivered: 1, failed: 0 })
      expect(collector.arrivals).toHaveLength(2)
    },
  )

  test('that is a page of HTML without end is a failed attempt at its deadline, and when close() gives up', async () => {
    useFakeClock()
    const page = () =>
      new Response(
        new ReadableStream({
          start: (controller) => {
            controller.enqueue(new TextEncoder().encode('<!doctype html>'))
          },
        }),
      )
    const net = oddFetch(() => Promise.resolve(page()))
    const analytics = createClient(net, { flushAt: 1 })
    trackMany(analytics, 1)
    await pass(10_000)
    expect(analytics.stats()).toMatchObject({ delivered: 0, pending: 1 })
    await pass(500)
    expect(analytics.stats().delivered).toBe(1)

    const closing = createClient(
      oddFetch(() => Promise.resolve(page())),
      { flushAt: 1 },
    )
    trackMany(closing, 1)
    await pass(1_000)
    const [closed] = await Promise.all([closing.close({ timeout: 0 }), pass(1_000)])
    expect(closed).toEqual({ delivered: 0, failed: 1 })
  })

  test('that breaks off within its JSON is lost, so the batch is sent again', async () => {
    const collector = await startCollector()
    collector.script('reset in reply')
    const analytics = createClient(collector, { fetch: globalThis.fetch })
    trackMany(analytics, 1)
    expect(await analytics.flush()).toEqual({ delivered: 1, failed: 0 })
    expect(collector.arrivals).toHaveLength(2)
  })

  test('that is shorter than its Content-Length counts by its status, at once', async () => {
    const server = await answering('HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{}')
    const analytics = createClient(server, IN_TIME)
    trackMany(analytics, 1)
    expect(await analytics.flush()).toEqual({ delivered: 1, failed: 0 })
    expect(server.requests).toBe(1)
  })

  test.each([
    ['200 OK\r\nContent-Length: 74', 3],
    ['200 OK\r\nTransfer-Encoding: chunked', 3],
    ['200 OK\r\nTransfer-Encoding: Chunked', 3],
    ['200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n0', 1],
    ['200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0', 1],
    ['200 OK\r\nContent-Length: 0', 1],
    ['200 OK\r\nConnection: close', 1],
    ['200 OK\r\nConnection: close\r\nContent-Encoding: gzip', 3],
    ['200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 0', 1],
    ['200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n\n\r\n0', 1],
    ['200 OK', 1],
    ['200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 74', 3],
    ['204 No Content\r\nContent-Length: 74', 1],
  ])('that ends before its body (%s) counts at request %i', async (head, requests) => {
    const server = await answering(`HTTP/1.1 ${head}\r\n\r\n`)
    const analytics = createClient(server, IN_TIME)
    trackMany(analytics, 1)
    expect(await analytics.flush()).toEqual({ delivered: 1, failed: 0 })
    expect(server.requests).toBe(requests)
  })

  const REFUSED = '{"rejected":[{"index":0,"code":"bad","message":"no"}]}'
  const HEAD = `HTTP/1.1 200 OK\r\nContent-Length: ${REFUSED.length}\r\n\r\n`
  const BEGUN = HEAD + REFUSED.slice(0, 30)

  test.each([HEAD, 'HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 74\r\n\r\n'])(
    'that is lost before its body (%j) refuses the messages that the next one names',
    async (head) => {
      const server = await answering(head, HEAD + REFUSED)
      const analytics = createClient(server, IN_TIME)
      trackMany(analytics, 2)
      expect(await analytics.flush()).toEqual({ delivered: 1, failed: 1 })
      expect(server.requests).toBe(2)
    },
  )

  test.each([
    ['a message alone', 1, [BEGUN, BEGUN, HEAD, HEAD, HEAD]],
    ['two messages', 2, [BEGUN, BEGUN, HEAD]],
    ['two messages, before the list,', 2, [HEAD, BEGUN, HEAD]],
  ])(
    'that breaks off in the list of what it refuses of %s is no delivery, whatever breaks off after it',
    { tags: 'long' },
    async (_, messages, answers) => {
      const server = await answering(...answers, HEAD + REFUSED)
      const analytics = createClient(server, IN_TIME)
      trackMany(analytics, messages)
      expect(await analytics.flush()).toEqual({ delivered: 0, failed: messages })
      expect(server.requests).toBe(answers.length + messages)
    },
  )

  test.each(['gzip', 'br', 'GZIP', 'Br'] as const)(
    'that is compressed with %s, although not asked for, is read',
    async (encoding) => {
      const asked: unknown[] = []
      const body = JSON.stringify({ rejected: [{ index: 0, code: 'bad', message: 'no' }] })
      const server = createHttpServer((request, response) => {
        asked.push(request.headers['accept-encoding'])
        request.resume().on('end', () => {
          response.setHeader('Content-Encoding', encoding)
          response.end(/gzip/i.test(encoding) ? gzipSync(body) : brotliCompressSync(body))
        })
      })
      await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
      onTestFinished(() => void server.close())
      const { port } = server.address() as AddressInfo
      const heard = listen()
      const analytics = createClient({ url: `http://127.0.0.1:${port}` } as Collector, heard.hooks)
      trackMany(analytics, 1)
      expect(await analytics.flush()).toEqual({ delivered: 0, failed: 1 })
      expect(heard.failed[0]?.error.message).toContain('no (bad)')
      expect(asked).toEqual(['identity'])
    },
  )

  test.each(['cut', 'held'])(
    'that is %s in its list of refused messages is lost, so the batch is sent again',
    async (how) => {
      const rejected = [
        { index: 1, code: 'bad', message: 'no' },
        { index: 2, code: 'bad', message: 'no' },
      ]
      const whole = JSON.stringify({ success: true, rejected })
      let requests = 0
      const server = createHttpServer((request, response) => {
        request.resume().on('end', () => {
          if (requests++ > 0) {
            response.end(whole)
            return
          }
          response.write(whole.slice(0, whole.lastIndexOf('{')))
          if (how === 'cut') setTimeout(() => response.destroy(), 20)
        })
      })
      await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
      onTestFinished(() => {
        server.close()
        server.closeAllConnections()
      })
      const { port } = server.address() as AddressInfo
      const endpoint = `http://127.0.0.1:${port}`
      const analytics = createClient(scriptedFetch(), {
        endpoint,
        fetch: globalThis.fetch,
        timeout: 500,
        onFailed: () => undefined,
      })
      trackMany(analytics, 3)
      expect(await analytics.flush()).toEqual({ delivered: 1, failed: 2 })
      expect(requests).toBe(2)
    },
  )

  const CUT = '{"rejected":[{"index":1,"code":"bad"},{"index":2'

  test.each([
    ['shorter than its Content-Length', `Content-Length: 500\r\n\r\n${CUT}`],
    ['as long as its Content-Length', `Content-Length: ${CUT.length}\r\n\r\n${CUT}`],
    ['chunked', `Transfer-Encoding: chunked\r\n\r\n${chunkOf(CUT)}`],
    ['without a length, and ends with its connection', `Connection: close\r\n\r\n${CUT}`],
    ['without a length, and says more of its connection', `Connection: close, TE\r\n\r\n${CUT}`],
    ['without any header', `\r\n${CUT}`],
    [
      'chunked, but has its last chunk',
      `Transfer-Encoding: chunked\r\n\r\n${chunkOf(CUT)}0\r\n\r\n`,
    ],
  ])('that ends in its list of refused messages is lost, too, if it is %s', async (_, cut) => {
    useFakeClock()
    const whole = `${CUT}}]}`
    const server = await answering(
      `HTTP/1.1 200 OK\r\n${cut}`,
      `HTTP/1.1 200 OK\r\nContent-Length: ${whole.length}\r\n\r\n${whole}`,
    )
    const heard = listen()
    const analytics = createClient(server, IN_TIME)
    trackMany(analytics, 3, 0, heard.as)
    void analytics.flush()
    await passUntil(() => heard.outcomes.length === 3)
    expect(heard.codes.sort()).toEqual(['e0: ok', 'e1: rejected', 'e2: rejected'])
    expect(server.requests).toBe(2)
  })

  const DEPRECATED = '{"success":true}\n<b>Deprecated</b>: foo()'

  test.each([
    ['a whole object before other text', 'Connection: close\r\n\r\n', DEPRECATED, 1],
    ['a part of an object each time', 'Connection: close\r\n\r\n', '{"success', 3],
    ['less than its length each time', 'Content-Length: 99\r\n\r\n', '{"success', 3],
  ])('that is %s counts by its status, in the end', async (_, head, body, requests) => {
    useFakeClock()
    const server = await answering(...Array<string>(9).fill(`HTTP/1.1 200 OK\r\n${head}${body}`))
    const heard = listen()
    const analytics = createClient(server, IN_TIME)
    trackMany(analytics, 1, 0, heard.as)
    void analytics.flush()
    await passUntil(() => heard.outcomes.length === 1)
    expect(heard.codes).toEqual(['e0: ok'])
    expect(server.requests).toBe(requests)
  })

  test.each([
    ...[
      '{"success":true',
      '{"success":true,"rejected":[ ]',
      '{"rejected" : 0',
      '{"rejected":null,"a":[',
    ],
    ...['{"state":"rejected","a":1', '{"rejected":[]}\n{"rejected":[{', '<p>{"rejected":[{'],
    ...['[{"rejected":[{', '"rejected":[{', 'rejected'],
  ])(
    'that is as long as its Content-Length and begins no list is asked for once: %s',
    async (body) => {
      const server = await answering(
        `HTTP/1.1 200 OK\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
      )
      const analytics = createClient(server)
      trackMany(analytics, 2)
      expect(await analytics.flush()).toEqual({ delivered: 2, failed: 0 })
      expect(server.requests).toBe(1)
    },
  )

  test('that names a refused message is believed, whatever follows its object', async () => {
    useFakeClock()
    const refusing = `{"rejected":[{"index":1,"code":"bad"}]}\n<b>Deprecated</b>: foo()`
    const server = await answering(`HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n${refusing}`)
    const heard = listen()
    const analytics = createClient(server, IN_TIME)
    trackMany(analytics, 2, 0, heard.as)
    void analytics.flush()
    await passUntil(() => heard.outcomes.length === 2)
    expect(heard.codes.sort()).toEqual(['e0: ok', 'e1: rejected'])
  })

  test.each(['"rejected"', String.raw`"\u0072ejected"`])(
    'that breaks off each time after it has begun to name a message in %s never counts by its status',
    async (name) => {
      useFakeClock()
      const cut = `Connection: close\r\n\r\n{${name}:[{"index":0`
      const server = await answering(...Array<string>(9).fill(`HTTP/1.1 200 OK\r\n${cut}`))
      const heard = listen()
      const analytics = createClient(server, { ...IN_TIME, maxRetries: 5 })
      trackMany(analytics, 1, 0, heard.as)
      void analytics.flush()
      await passUntil(() => heard.outcomes.length === 1)
      expect(heard.codes).toEqual(['e0: retries_exhausted'])
    },
  )

  test('whose body has begun before close() gives up counts by its status', async () => {
    let requests = 0
    const server = createHttpServer((request, response) => {
      request.resume().on('end', () => {
        requests++
        if (requests === 1) response.write('ok')
        else response.writeHead(200).flushHeaders()
      })
    })
    const { url, close } = await listening(server.listen(0))
    onTestFinished(() => {
      server.closeAllConnections()
      return void close()
    })
    const heard = listen()
    const options = { endpoint: url, fetch: globalThis.fetch, flushAt: 2 }
    const analytics = createClient(scriptedFetch(), options)
    trackMany(analytics, 2, 0, heard.as)
    await vi.waitUntil(() => requests === 1, 60_000)
    trackMany(analytics, 1, 2, heard.as)
    expect(await analytics.close({ timeout: 1_000 })).toEqual({ delivered: 2, failed: 1 })
    expect(heard.codes).toEqual(['e0: ok', 'e1: ok', 'e2: close_timeout'])
  })

  test('whose list of refused messages is too long is asked for again, by smaller bodies', async () => {
    useFakeClock()
    const collector = await startCollector()
    const message = 'no'.repeat(250_000)
    collector.otherwise(({ messages }) => ({
      body: JSON.stringify({ rejected: messages.map((_, index) => ({ index, message })) }),
    }))
    const heard = listen()
    const analytics = createClient(collector, IN_TIME)
    trackMany(analytics, 20, 0, heard.as)
    await passUntil(() => heard.outcomes.length === 20)
    expect(heard.codes).toEqual(names(0, 20).map((name) => `${name}: rejected`))
  })

  test('that is whole counts by its status, though it is no JSON and shorter than it was compressed', async () => {
    const body = gzipSync('"rejected"...')
    const headers = { 'Content-Encoding': 'gzip', 'Content-Length': body.length }
    const server = createHttpServer((request, response) => {
      request.resume().on('end', () => response.writeHead(200, headers).end(body))
    })
    const { url, close } = await listening(server.listen(0))
    onTestFinished(() => void close())
    const options = { endpoint: url, fetch: globalThis.fetch }
    const analytics = createClient(scriptedFetch(), options)
    trackMany(analytics, 1)
    expect(await analytics.flush()).toEqual({ delivered: 1, failed: 0 })
  })

  const REFUSING = JSON.stringify({ rejected: [{ index: 1, code: 'bad', message: 'no' }] })

  test.each<[string, OutgoingHttpHeaders, (response: ServerResponse) => void]>([
    ['is reset, chunked', {}, (response) => response.socket?.resetAndDestroy()],
    [
      'is reset, shorter than its length',
      { 'Content-Length': 999 },
      (response) => response.destroy(),
    ],
    ['never ends, chunked', {}, () => undefined],
    ['never ends, shorter than its length', { 'Content-Length': 999 }, () => undefined],
    ['begins with a byte order mark', {}, (response) => response.end()],
  ])('that names a refused message is believed though it %s', async (how, headers, end) => {
    const server = createHttpServer((request, response) => {
      request.resume().on('end', () => {
        response.writeHead(200, headers)
        response.write(how.includes('mark') ? `\uFEFF${REFUSING}` : REFUSING, () => {
          setTimeout(end, 20, response)
        })
      })
    })
    const heard = listen()
    const { url, close } = await listening(server.listen(0))
    onTestFinished(() => void close())
    const options = { fetch: undefined, endpoint: url, timeout: 500 }
    const analytics = createClient(scriptedFetch(), options)
    trackMany(analytics, 3, 0, heard.as)
    await analytics.flush()
    expect(heard.codes.sort()).toEqual(['e0: ok', 'e1: rejected', 'e2: ok'])
  })

  test('with 20 KB of headers is read', async () => {
    const collector = await startCollector()
    collector.otherwise({ headers: { 'X-Large': 'y'.repeat(20_000) } })
    const analytics = createClient(collector)
    trackMany(analytics, 20)
    expect(await analytics.flush()).toEqual({ delivered: 20, failed: 0 })
    expect(collector.arrivals).toHaveLength(1)
  })

  test.each([
    '{"rejected":[{"index":0,"code":{"toString":1}}]}',
    '{"rejected":[{"index":0,"message":{"toString":null,"valueOf":1}}]}',
    '{"rejected":[{"index":0,"code":[[[]]],"message":{"toJSON":1}}]}',
  ])('with hostile words refuses its message, and ends nothing: %s', async (body) => {
    const unhandled = await unhandledDuring(async () => {
      const heard = listen()
      const analytics = createClient(scriptedFetch({ body }), heard.hooks)
      trackMany(analytics, 2, 0, heard.as)
      expect(await analytics.flush()).toEqual({ delivered: 1, failed: 1 })
      expect(heard.codes).toEqual(['e0: rejected', 'e1: ok'])
      trackMany(analytics, 1)
      expect(await analytics.flush()).toEqual({ delivered: 1, failed: 0 })
    })
    expect(unhandled).toEqual([])
  })

  test('that arrived while the process was frozen counts, though its time was over', async () => {
    const collector = await startCollector()
    let answer: (reply: Reply) => void = () => undefined
    collector.script(() => new Promise<Reply>((resolve) => (answer = resolve)))
    const script = `
      import { Analytics } from 'hookline'
      const analytics = new Analytics('k', { endpoint: '${collector.url}', timeout: 2_000 })
      analytics.track({ userId: 'u', event: 'e' })
      console.log(await analytics.flush())`
    let pid = 0
    const ended = runModule(script, { onStart: (child) => (pid = child) })
    await collector.arrived(1)
    process.kill(pid, 'SIGSTOP')
    answer(200)
    await new Promise((resolve) => setTimeout(resolve, 3_000))
    process.kill(pid, 'SIGCONT')
    expect(await ended).toMatchObject({ code: 0, stdout: '{ delivered: 1, failed: 0 }\n' })
    expect(collector.arrivals).toHaveLength(1)
  })

  test('that an injected fetch does not see break off is lost at the deadline', async () => {
    useFakeClock()
    const collector = await startCollector()
    collector.script('reset in reply')
    const { fetch, heads } = countHeads()
    const analytics = createClient(collector, { fetch, flushAt: 1 })
    trackMany(analytics, 1)
    await until(() => heads() === 1)
    await pass(10_000)
    await passUntil(() => analytics.stats().pending === 0)
    expect(analytics.stats()).toMatchObject({ delivered: 1, pending: 0 })
    expect(collector.arrivals).toHaveLength(2)
  })

  test('with characters cut between chunks is read whole', async () => {
    const bytes = Buffer.from('{"rejected":[{"index":0,"code":"é","message":"€𝄞"}]}')
    const chunks = [...bytes].map((byte) => Uint8Array.of(byte))
    const body = new ReadableStream({
      pull: (controller) => {
        const chunk = chunks.shift()
        if (chunk) controller.enqueue(chunk)
        else controller.close()
      },
    })
    const heard = listen()
    const net = oddFetch(() => Promise.resolve(new Response(body)))
    const analytics = createClient(net, heard.hooks)
    trackMany(analytics, 1)
    await analytics.flush()
    expect(heard.failed[0]?.error.message).toContain('€𝄞 (é)')
  })
})

test('one connection serves request after request', async () => {
  const collector = await startCollector()
  const analytics = createClient(collector)
  for (let i = 0; i < 5; i++) {
    trackMany(analytics, 1, i)
    await analytics.flush()
    expect(collector.openSockets).toBe(1)
  }
  expect(collector.arrivals).toHaveLength(5)
  await analytics.close()
  await collector.disconnected()
})

describe('gzip', () => {
  test('compresses the body, and says so', async () => {
    const collector = await startCollector()
    const analytics = createClient(collector, { gzip: true })
    analytics.track(sized(32_768, '€'))
    trackMany(analytics, 10)
    expect(await analytics.flush()).toEqual({ delivered: 11, failed: 0 })
    const { headers, bytes, json } = collector.arrivals[0] ?? {}
    expect(headers).toMatchObject({
      'content-encoding': 'gzip',
      'content-type': 'application/json',
      'content-length': String(bytes?.length),
    })
    expect(bytes?.length).toBeLessThan(2_000)
    expect(Buffer.byteLength(json ?? '')).toBeGreaterThan(32_768)
    expect(events(collector.arrivals[0])).toEqual(['e', ...names(0, 10)])
  })

  test('is left out unless asked for', async () => {
    const net = scriptedFetch()
    const analytics = createClient(net, { gzip: false })
    trackMany(analytics, 1)
    await analytics.flush()
    expect(net.arrivals[0]?.headers).not.toHaveProperty('content-encoding')
  })

  test('changes nothing about retries, order and ids', async () => {
    useFakeClock()
    const collector = await startCollector()
    collector.script(503, 'reset')
    const heard = listen()
    const analytics = createClient(collector, { ...IN_TIME, gzip: true, flushAt: 2 })
    trackMany(analytics, 2, 0, heard.as)
    await passUntil(() => heard.outcomes.length === 2)
    expect(collector.arrivals.map(({ headers }) => headers['x-retry-count'])).toEqual([
      undefined,
      '1',
      '2',
    ])
    const [first, , third] = collector.arrivals
    expect(third?.body.batch).toEqual(first?.body.batch)
    expect(third?.body.messageId).toBe(first?.body.messageId)
  })
})
