import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import http from 'node:http'
import https from 'node:https'
import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { connect as connectTls } from 'node:tls'
import { HttpsProxyAgent } from 'https-proxy-agent'
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest'
import { canProxy } from '../src/agent.js'
import { Analytics, OptionError, type AnalyticsOptions } from '../src/index.js'
import { checkOptions } from '../src/options.js'
import { proxyFor } from '../src/proxy.js'
import {
  createClient,
  events,
  listen,
  pass,
  runScript,
  scriptedFetch,
  startCollector,
  thrownBy,
  trackMany,
  until,
  useFakeClock,
} from './collector.js'

/** Concurrent tests would share `onTestFinished`: say whose end it is. */
type AtEnd = (end: () => void) => void

async function listening(server: Server, atEnd: AtEnd): Promise<number> {
  const sockets = new Set<Socket>()
  const note = (socket: Socket) => {
    socket.on('error', () => undefined)
    sockets.add(socket)
  }
  server.on('connection', note)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  atEnd(() => {
    server.close()
    for (const socket of sockets) socket.destroy()
  })
  return (server.address() as AddressInfo).port
}

/** What a proxy does with a tunnel: passes it on, refuses it (with 407 or this status), never answers, or dies once the tunnel stands. */
type Meets = 'pass' | 'refuse' | number | 'hang' | 'die'

/**
 * A proxy on a port of its own, whatever host is asked for: all leads to one server here. The first connections meet
 * `meets`, and those after them pass.
 */
async function startProxy(
  port: number,
  meets: readonly Meets[] = [],
  atEnd: AtEnd = onTestFinished,
) {
  const requests: string[] = []
  const heads: string[] = []
  let connections = 0
  const proxy = createServer((socket) => {
    const does = meets[connections++] ?? 'pass'
    socket.once('data', (data) => {
      const head = data.toString('latin1')
      heads.push(head)
      requests.push(head.split(' HTTP/1.1', 1)[0] ?? '')
      if (does === 'hang') return
      if (does === 'refuse' || typeof does === 'number') {
        socket.end(
          `HTTP/1.1 ${does === 'refuse' ? 407 : does} Refused\r\nContent-Length: 0\r\n\r\n`,
        )
        return
      }
      const server = connect(port, '127.0.0.1')
      server.on('error', () => socket.destroy())
      if (head.startsWith('CONNECT ')) socket.write('HTTP/1.1 200 Connection established\r\n\r\n')
      else server.write(data)
      socket.on('close', () => server.destroy())
      server.pipe(socket)
      if (does === 'die') socket.on('data', () => socket.destroy())
      else socket.pipe(server)
    })
  })
  const own = await listening(proxy, atEnd)
  return {
    url: `http://user:s3cret@127.0.0.1:${own}`,
    host: `127.0.0.1:${own}`,
    requests,
    heads,
    connections: () => connections,
  }
}

const hasOpenssl = (() => {
  try {
    execFileSync('openssl', ['version'], { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
})()
if (!hasOpenssl)
  console.warn('There is no openssl here: the tests of proxies to https endpoints are left out.')
if (!canProxy())
  console.warn(
    `Node ${process.version} takes no proxy from the environment: those tests are left out.`,
  )

let folder = ''
let certificate: { key: Buffer; cert: Buffer }
beforeAll(() => {
  if (!hasOpenssl) return
  folder = mkdtempSync(join(tmpdir(), 'hookline-proxy-'))
  const curve = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes']
  const subject = ['-subj', '/CN=collect.test', '-addext', 'subjectAltName=DNS:collect.test']
  execFileSync(
    'openssl',
    ['req', '-x509', ...curve, ...subject, '-days', '2', '-keyout', 'key', '-out', 'cert'],
    { cwd: folder, stdio: 'ignore' },
  )
  certificate = { key: readFileSync(join(folder, 'key')), cert: readFileSync(join(folder, 'cert')) }
})
afterAll(() => {
  if (folder) rmSync(folder, { recursive: true })
})

/** An https collector for collect.test, which only a proxy leads to. */
async function startSecureCollector(atEnd: AtEnd = onTestFinished) {
  const sent: (string | undefined)[] = []
  const server = https.createServer(certificate, (request, response) => {
    let body = ''
    request.setEncoding('utf8').on('data', (text: string) => (body += text))
    request.on('end', () => {
      sent.push(
        ...(JSON.parse(body) as { batch: { event: string }[] }).batch.map(({ event }) => event),
      )
      response.end('{}')
    })
  })
  return { port: await listening(server, atEnd), sent }
}

const hrefOf = (proxy: URL | Error | undefined) => (proxy instanceof URL ? proxy.href : proxy)

describe('the proxy of an endpoint', () => {
  const P = 'http://proxy.example:3128/'
  const both = { HTTPS_PROXY: P, HTTP_PROXY: 'http://plain.example:80' }

  test.each<[string, Record<string, string>, string | undefined]>([
    ['https://a.example', {}, undefined],
    ['https://a.example', { HTTPS_PROXY: '' }, undefined],
    ['https://a.example', both, P],
    ['http://a.example', both, 'http://plain.example/'],
    ['https://a.example', { HTTP_PROXY: P }, undefined],
    ['http://a.example', { HTTPS_PROXY: P }, undefined],
    ['https://a.example', { https_proxy: P }, P],
    ['https://a.example', { https_proxy: 'http://lower.example', HTTPS_PROXY: P }, P],
    ['https://a.example', { HTTPS_PROXY: 'proxy.example:3128' }, P],
    ['https://a.example', { HTTPS_PROXY: '10.0.0.1:3128' }, 'http://10.0.0.1:3128/'],
    [
      'https://a.example',
      { HTTPS_PROXY: 'https://u:p@proxy.example' },
      'https://u:p@proxy.example/',
    ],
    ['http://a.example', { HTTPS_PROXY: '::::' }, undefined],
    ['https://127.0.0.1', { HTTPS_PROXY: '::::' }, undefined],
    ['https://a.example', { HTTPS_PROXY: '::::', NO_PROXY: 'a.example' }, undefined],
    ['http://a.example', { HTTP_PROXY: P, REQUEST_METHOD: '' }, P],
    ['http://127.0.0.1', { HTTP_PROXY: P, REQUEST_METHOD: 'POST' }, undefined],
    ['http://a.example', { REQUEST_METHOD: 'POST' }, undefined],
    ['https://a.example', { HTTPS_PROXY: 'http:3128' }, 'http://http:3128/'],
    ['https://a.example', { HTTPS_PROXY: 'u:p;x@p.example:1' }, 'http://u:p%3Bx@p.example:1/'],
    ['https://a.example', { HTTPS_PROXY: 'proxy.example:3128/' }, P],
    ['https://a.example', { HTTPS_PROXY: 'http://u:p%25@p.example' }, 'http://u:p%25@p.example/'],
    ['https://a.example', { HTTPS_PROXY: P, REQUEST_METHOD: 'POST' }, P],
    ['https://a.example', { HTTPS_PROXY: `${P}\r\n` }, P],
  ])('%s with %o is %s', (endpoint, environment, proxy) => {
    expect(hrefOf(proxyFor(new URL(endpoint), environment))).toBe(proxy)
  })

  test.each<[string, string, string]>([
    ['HTTPS_PROXY', 'socks5://u:s3cret@proxy.example', 'a URL that starts with socks5://'],
    ['https_proxy', 'ftp://proxy.example', 'a URL that starts with ftp://'],
    ['HTTPS_PROXY', 'http://', 'a value that is no such URL'],
    ['HTTPS_PROXY', '::::', 'a value that is no such URL'],
    ['HTTPS_PROXY', 'http://u:s3cret@127.0.0.1:99999', 'a value that is no such URL'],
    ['HTTPS_PROXY', 'u:s3cret://@', 'a value that is no such URL'],
    ['HTTPS_PROXY', 'http:/proxy.example:3128', 'a value that is no such URL'],
    ['HTTPS_PROXY', 'https:proxy.example', 'a value that is no such URL'],
    ['HTTPS_PROXY', 'http//proxy.example:3128', 'a value that is no such URL'],
    ['HTTPS_PROXY', 'http;//proxy.example:3128', 'a value that is no such URL'],
  ])('is an error that keeps passwords for itself with %s=%s', (name, value, got) => {
    expect(proxyFor(new URL('https://a.example'), { [name]: value })).toEqual(
      new Error(
        `${name}: expected http://host:port or https://host:port, got ${got}. Nothing is sent past the proxy: correct the variable and start again, or give the option agent.`,
      ),
    )
  })

  test.each([
    'http://u:100%@proxy.example',
    'http://%ff@proxy.example',
    'u:%zz@proxy.example',
    'http://u:1#x@proxy.example',
    'http://u:1/x@proxy.example',
    'http://u:1?x@proxy.example',
    'http://u:1\\x@proxy.example',
    'u:1#x@proxy.example',
    'http://u\tv:x@proxy.example',
    'http://u:x\ny@proxy.example',
  ])('is an error that says how to write such a password with %j', (value) => {
    const found = proxyFor(new URL('https://a.example'), { HTTPS_PROXY: value })
    expect(found).toMatchObject({
      message: expect.stringMatching(
        /no such URL\. In a user or a password, write % as %25, .*\. Nothing/,
      ) as string,
    })
  })

  test.each(['HTTP_PROXY', 'http_proxy'])(
    'in a CGI program is an error, as in Go: %s may be a header',
    (name) => {
      const environment = { [name]: P, REQUEST_METHOD: 'POST' }
      expect(proxyFor(new URL('http://a.example'), environment)).toMatchObject({
        message: expect.stringMatching(`^${name}: not used, since REQUEST_METHOD is set`) as string,
      })
    },
  )

  test.each(['localhost', '127.0.0.1', '127.255.0.9', '[::1]', 'LOCALHOST:8080'])(
    'is never one for %s',
    (host) => {
      expect(proxyFor(new URL(`https://${host}`), both)).toBeUndefined()
      expect(proxyFor(new URL(`http://${host}`), both)).toBeUndefined()
    },
  )

  test.each<[string, string, boolean]>([
    ['*', 'a.example', true],
    [' , *', 'a.example', true],
    ['a.example', 'a.example', true],
    ['A.Example', 'a.example', true],
    ['a.example', 'b.a.example', true],
    ['a.example', 'ba.example', false],
    ['a.example', 'a.example.org', false],
    ['.a.example', 'b.a.example', true],
    ['.a.example', 'a.example', false],
    ['*.a.example', 'b.a.example', true],
    ['*.a.example', 'a.example', false],
    ['b.example, a.example ,c.example', 'a.example', true],
    ['a.example:443', 'a.example', true],
    ['a.example:8443', 'a.example', false],
    ['a.example:8443', 'a.example:8443', true],
    ['.a.example:443', 'b.a.example', true],
    ['10.1.2.3', '10.1.2.3', true],
    ['10.1.2.3', '10.1.2.4', false],
    ['10.1.2.3:443', '10.1.2.3', true],
    ['10.1.2.3:80', '10.1.2.3', false],
    ['2.3', '10.1.2.3', false],
    ['10.0.0.0/8', '10.1.2.3', true],
    ['10.0.0.0/8', '11.1.2.3', false],
    ['0.0.0.0/0', '11.1.2.3', true],
    ['10.0.0.0/33', '10.0.0.0', false],
    ['10.0.0.0/x', '10.0.0.0', false],
    ['10.0.0.0/8', 'a.example', false],
    ['fd00::/8', '[fd00::1]', true],
    ['fd00::/8', '[fe80::1]', false],
    ['fd00::/8', '10.0.0.1', false],
    ['fd00::1', '[fd00::1]', true],
    ['[fd00::1]:443', '[fd00::1]', true],
    ['[fd00::1]:80', '[fd00::1]', false],
    ['localhost', 'a.example', false],
    ['', 'a.example', false],
    [',.,:443,/8', 'a.example', false],
  ])('with NO_PROXY=%s, for %s: exempt is %s', (list, host, isExempt) => {
    const environment = { HTTPS_PROXY: P, NO_PROXY: list }
    const proxy = isExempt ? undefined : P
    expect(hrefOf(proxyFor(new URL(`https://${host}`), environment))).toBe(proxy)
    const lower = { HTTPS_PROXY: P, no_proxy: list }
    expect(hrefOf(proxyFor(new URL(`https://${host}`), lower))).toBe(proxy)
  })
})

describe('the option agent', () => {
  const refusal = (options: AnalyticsOptions) => {
    const error = thrownBy(() => new Analytics('k', options))
    expect(error).toBeInstanceOf(OptionError)
    expect((error as OptionError).option).toBe('agent')
    return (error as OptionError).message
  }

  test('with a fetch is refused, and the message says what to do', () => {
    const message = refusal({ agent: new http.Agent(), fetch: scriptedFetch().fetch })
    expect(message).toBe(
      'agent needs the default fetch, and fetch was given too: give one of the two, and let your fetch use the agent.',
    )
  })

  test('of the other protocol is refused, instead of failing at each request', () => {
    expect(refusal({ agent: new http.Agent(), endpoint: 'https://a.example' })).toMatch(
      /Give an Agent of node:https\.$/,
    )
    expect(refusal({ agent: new https.Agent(), endpoint: 'http://a.example' })).toMatch(
      /Give an Agent of node:http\.$/,
    )
  })

  test.each(['http://a.example', 'https://a.example'])(
    'of https-proxy-agent serves %s',
    (endpoint) => {
      const agent = new HttpsProxyAgent('http://127.0.0.1:1')
      expect(checkOptions('k', { agent, endpoint }).agent).toBe(agent)
    },
  )

  test('makes the connections, which stay open at close(): they are the application’s', async () => {
    const collector = await startCollector()
    const agent = new http.Agent({ keepAlive: true })
    onTestFinished(() => {
      agent.destroy()
    })
    const analytics = createClient(collector, { agent, flushAt: 1 })
    for (let i = 0; i < 3; i++) {
      trackMany(analytics, 1, i)
      await analytics.flush()
    }
    expect(collector.openSockets).toBe(1)
    await analytics.close()
    expect(Object.values(agent.freeSockets).flat()).toHaveLength(1)
    const other = createClient(collector, { agent, flushAt: 1 })
    trackMany(other, 1, 3)
    expect(await other.flush()).toEqual({ delivered: 1, failed: 0 })
    expect(collector.openSockets).toBe(1)
    expect(events(...collector.arrivals)).toEqual(['e0', 'e1', 'e2', 'e3'])
  })
})

test.each([true, false])(
  'an agent’s connection to an https endpoint needs TLS (it has it: %s)',
  async (hasTls) => {
    if (hasTls && !hasOpenssl) return
    const collector = hasTls ? await startSecureCollector() : await startCollector()
    const port = 'port' in collector ? collector.port : Number(new URL(collector.url).port)
    const agent = new https.Agent({ keepAlive: true })
    // An application may open the connection itself.
    agent.createConnection = () => {
      const socket = connect(port, '127.0.0.1')
      return hasTls
        ? connectTls({ socket, servername: 'collect.test', ca: certificate.cert })
        : socket
    }
    onTestFinished(() => {
      agent.destroy()
    })
    const heard = listen()
    const endpoint = 'https://collect.test'
    const analytics = createClient(scriptedFetch(), {
      ...{ fetch: undefined, endpoint, agent, maxRetries: 0, timeout: 10_000, ...heard.hooks },
    })
    trackMany(analytics, 1, 0, heard.as)
    await analytics.flush()
    expect(heard.codes).toEqual([hasTls ? 'e0: ok' : 'e0: retries_exhausted'])
    if ('sent' in collector) expect(collector.sent).toEqual(['e0'])
    else {
      expect((heard.failed[0]?.error.cause as Error).message).toMatch(
        /connection of the agent has no TLS$/,
      )
      expect(collector.arrivals).toEqual([])
    }
  },
)

test.skipIf(!hasOpenssl)('nothing is sent to an https endpoint that is not trusted', async () => {
  const { port, sent } = await startSecureCollector()
  const heard = listen()
  const endpoint = `https://127.0.0.1:${port}`
  const analytics = createClient(scriptedFetch(), {
    ...{ fetch: undefined, endpoint, maxRetries: 0, ...heard.hooks },
  })
  trackMany(analytics, 1, 0, heard.as)
  await analytics.flush()
  expect(heard.codes).toEqual(['e0: retries_exhausted'])
  expect((heard.failed[0]?.error.cause as Error).message).toMatch(/self-signed certificate/)
  expect(sent).toEqual([])
})

describe.skipIf(!hasOpenssl)('https-proxy-agent', () => {
  async function setUp(meets: Meets[] = [], options: AnalyticsOptions = {}) {
    const collector = await startSecureCollector()
    const proxy = await startProxy(collector.port, meets)
    const agent = new HttpsProxyAgent(proxy.url, { keepAlive: true })
    // Its own options are for the connection to the proxy. These are for the endpoint.
    Object.assign(agent.options, { ca: certificate.cert })
    onTestFinished(() => {
      agent.destroy()
    })
    const heard = listen()
    const analytics = createClient(scriptedFetch(), {
      fetch: undefined,
      endpoint: 'https://collect.test',
      timeout: 10_000,
      agent,
      flushAt: 1,
      ...heard.hooks,
      ...options,
    })
    return { collector, proxy, analytics, heard }
  }

  test('leads to an https endpoint, with one tunnel for all requests', async () => {
    const { collector, proxy, analytics } = await setUp()
    for (let i = 0; i < 3; i++) {
      trackMany(analytics, 1, i)
      await analytics.flush()
    }
    expect(collector.sent).toEqual(['e0', 'e1', 'e2'])
    expect(proxy.requests).toEqual(['CONNECT collect.test:443'])
    expect(proxy.heads[0]).toMatch(/proxy-authorization: basic dXNlcjpzM2NyZXQ=/i)
  })

  test.each<Meets>(['refuse', 'die'])(
    'to a proxy that does "%s" is a failed request, and the next one delivers',
    async (meets) => {
      const { collector, proxy, analytics, heard } = await setUp([meets])
      trackMany(analytics, 1)
      expect(await analytics.flush()).toEqual({ delivered: 1, failed: 0 })
      expect(heard.delivered[0]?.attempts).toBe(2)
      expect(proxy.connections()).toBe(2)
      expect(collector.sent).toEqual(['e0'])
    },
  )

  test.each([201, 204, 299, 302, 400, 403, 404, 413, 502])(
    'to a proxy that answers CONNECT with %i is a failed request, whatever the endpoint is',
    async (status) => {
      for (const endpoint of ['https://collect.test', 'http://collect.test']) {
        const { collector, proxy, analytics, heard } = await setUp([status], {
          ...{ endpoint, maxRetries: 0 },
        })
        trackMany(analytics, 1, 0, heard.as)
        expect(await analytics.flush()).toEqual({ delivered: 0, failed: 1 })
        expect(heard.codes).toEqual(['e0: retries_exhausted'])
        expect((heard.failed[0]?.error.cause as Error).message).toMatch(
          `the proxy refused the tunnel: it answered ${status}`,
        )
        expect(proxy.connections()).toBe(1)
        expect(collector.sent).toEqual([])
      }
    },
  )

  test('to a proxy that refuses a tunnel again and again loses nothing', async () => {
    const { collector, analytics, heard } = await setUp([403, 201])
    trackMany(analytics, 1)
    expect(await analytics.flush()).toEqual({ delivered: 1, failed: 0 })
    expect(heard.delivered[0]?.attempts).toBe(3)
    expect(collector.sent).toEqual(['e0'])
  })

  test('to a proxy that hangs ends with the timeout', async () => {
    useFakeClock()
    const { proxy, analytics, heard } = await setUp(['hang', 'hang'], { maxRetries: 1 })
    trackMany(analytics, 1, 0, heard.as)
    await until(() => proxy.requests.length === 1)
    await pass(10_000)
    await pass(500)
    await until(() => proxy.requests.length === 2)
    await pass(10_000)
    expect(heard.codes).toEqual(['e0: retries_exhausted'])
    expect((heard.failed[0]?.error.cause as Error).message).toBe('no answer within 10000 ms')
  })
})

describe('the environment', () => {
  /** Its own end of each test, since they run side by side. */
  const recording = (options = '', timeout = 10_000) => `
    const analytics = new Analytics('k', {
      flushAt: 1,
      onFailed: ({ error }) => console.log(error.code),
      onDelivered: ({ attempts }) => console.log('delivered after ' + attempts),
      ${options}
    })
    for (const event of ['e0', 'e1', 'e2']) {
      analytics.track({ userId: 'u', event })
      await analytics.flush({ timeout: ${timeout} })
    }
    await analytics.close({ timeout: 0 })
  `
  const tls = () => ({
    ANALYTICS_ENDPOINT: 'https://collect.test',
    NODE_EXTRA_CA_CERTS: join(folder, 'cert'),
  })

  test.concurrent(
    'sends nothing for this machine through a proxy',
    async ({ expect, onTestFinished: atEnd }) => {
      const collector = await startCollector(atEnd)
      const proxy = await startProxy(0, [], atEnd)
      const env = {
        ANALYTICS_ENDPOINT: collector.url,
        HTTP_PROXY: proxy.url,
        HTTPS_PROXY: proxy.url,
        NODE_USE_ENV_PROXY: '1',
      }
      const { stdout, code } = await runScript(recording(), { env })
      expect({ stdout, code }).toEqual({ stdout: 'delivered after 1\n'.repeat(3), code: 0 })
      expect(proxy.connections()).toBe(0)
    },
  )

  test.concurrent(
    'has no say for a client that was given an agent',
    async ({ expect, onTestFinished: atEnd }) => {
      const proxy = await startProxy(0, [], atEnd)
      const env = { ANALYTICS_ENDPOINT: 'http://collect.test', HTTP_PROXY: proxy.url }
      const source = `import { Agent } from 'node:http'\n${recording('agent: new Agent()', 0)}`
      const { stdout } = await runScript(source, { env })
      expect(stdout).toBe('close_timeout\n')
      expect(proxy.connections()).toBe(0)
    },
  )

  test
    .runIf(!canProxy())
    .concurrent(
      'is told of in one line of the log, where Node cannot use it',
      async ({ expect, onTestFinished: atEnd }) => {
        const proxy = await startProxy(0, [], atEnd)
        const env = {
          ANALYTICS_ENDPOINT: 'https://collect.test',
          HTTPS_PROXY: proxy.url,
          DEBUG: 'analytics',
        }
        const { stderr } = await runScript(recording('', 0), { env })
        const lines = stderr.split('\n').filter((line) => line.includes('proxy'))
        expect(lines).toEqual([
          expect.stringContaining(`cannot use http://${proxy.host}, give the option agent`),
        ])
        expect(stderr).not.toContain('s3cret')
        expect(proxy.connections()).toBe(0)
      },
    )

  describe.runIf(canProxy())('names a proxy', () => {
    test.concurrent(
      'to an http endpoint: one connection for all requests',
      async ({ expect, onTestFinished: atEnd }) => {
        const collector = await startCollector(atEnd)
        const proxy = await startProxy(Number(new URL(collector.url).port), [], atEnd)
        const env = {
          ANALYTICS_ENDPOINT: 'http://collect.test/in?a=1',
          HTTP_PROXY: proxy.url,
          DEBUG: 'analytics',
        }
        const { stdout, stderr } = await runScript(recording(), { env })
        expect(stdout).toBe('delivered after 1\n'.repeat(3))
        expect(events(...collector.arrivals)).toEqual(['e0', 'e1', 'e2'])
        expect(proxy.requests).toEqual(['POST http://collect.test/in?a=1'])
        expect(stderr).toContain(`analytics proxy http://${proxy.host}\n`)
        expect(stderr).not.toMatch(/s3cret|dXNlcjpzM2NyZXQ/)
      },
    )

    test
      .runIf(hasOpenssl)
      .concurrent(
        'to an https endpoint: one tunnel for all requests',
        async ({ expect, onTestFinished: atEnd }) => {
          const collector = await startSecureCollector(atEnd)
          const proxy = await startProxy(collector.port, [], atEnd)
          const env = { ...tls(), HTTPS_PROXY: proxy.url, DEBUG: 'analytics' }
          const { stdout, stderr } = await runScript(recording(), { env })
          expect(stdout).toBe('delivered after 1\n'.repeat(3))
          expect(collector.sent).toEqual(['e0', 'e1', 'e2'])
          expect(proxy.requests).toEqual(['CONNECT collect.test:443'])
          expect(proxy.heads[0]).toMatch(/proxy-authorization: basic dXNlcjpzM2NyZXQ=/i)
          expect(stderr).not.toMatch(/s3cret|dXNlcjpzM2NyZXQ/)
        },
      )

    test
      .runIf(hasOpenssl)
      .concurrent(
        'that NO_PROXY exempts the endpoint from',
        async ({ expect, onTestFinished: atEnd }) => {
          const collector = await startSecureCollector(atEnd)
          const proxy = await startProxy(collector.port, [], atEnd)
          const env = { ...tls(), HTTPS_PROXY: proxy.url, NO_PROXY: 'example.com,test' }
          const { stdout } = await runScript(recording('', 0), { env })
          expect(stdout).toBe('close_timeout\n')
          expect(proxy.connections()).toBe(0)
        },
      )

    test.runIf(hasOpenssl).concurrent.for<Meets>(['refuse', 'die'])(
      'that does "%s": the next request delivers',
      async (meets, { expect, onTestFinished: atEnd }) => {
        const collector = await startSecureCollector(atEnd)
        const proxy = await startProxy(collector.port, [meets], atEnd)
        const env = { ...tls(), HTTPS_PROXY: proxy.url, DEBUG: 'analytics' }
        const { stdout, stderr } = await runScript(recording(), { env })
        expect(stdout).toBe(`delivered after 2\n${'delivered after 1\n'.repeat(2)}`)
        expect(collector.sent).toEqual(['e0', 'e1', 'e2'])
        expect(proxy.connections()).toBe(2)
        expect(stderr).not.toMatch(/s3cret|dXNlcjpzM2NyZXQ/)
      },
    )

    test
      .runIf(hasOpenssl)
      .concurrent(
        'that hangs: the timeout holds, and the next request delivers',
        async ({ expect, onTestFinished: atEnd }) => {
          const collector = await startSecureCollector(atEnd)
          const proxy = await startProxy(collector.port, ['hang'], atEnd)
          const env = { ...tls(), HTTPS_PROXY: proxy.url }
          const { stdout, code } = await runScript(recording('timeout: 1_000,'), { env })
          expect({ stdout, code }).toEqual({
            stdout: `delivered after 2\n${'delivered after 1\n'.repeat(2)}`,
            code: 0,
          })
        },
      )

    test
      .runIf(hasOpenssl)
      .concurrent(
        'that always hangs: it does not hold a script that ended',
        async ({ expect, onTestFinished: atEnd }) => {
          const collector = await startSecureCollector(atEnd)
          const proxy = await startProxy(collector.port, Array<Meets>(99).fill('hang'), atEnd)
          const env = { ...tls(), HTTPS_PROXY: proxy.url }
          const script = `
        const analytics = new Analytics('k', {
          // Longer than a script that does not end may take here.
          timeout: 2_000_000,
          flushAt: 1,
          onFailed: ({ error }) => console.log(error.code),
        })
        analytics.track({ userId: 'u', event: 'e' })
      `
          const { stdout, code } = await runScript(script, { env })
          expect({ stdout, code }).toEqual({ stdout: 'process_exit\n', code: 0 })
        },
      )
  })
})

describe('a variable that names no proxy', () => {
  /** A client of a server that is reached directly, under an address that is not known to be of this machine. */
  async function setUp(canUse: boolean, value: string) {
    const flags = vi.spyOn(process, 'allowedNodeEnvironmentFlags', 'get')
    flags.mockReturnValue(new Set(canUse ? ['--use-env-proxy'] : []))
    vi.stubEnv('HTTP_PROXY', value)
    onTestFinished(() => {
      flags.mockRestore()
      vi.unstubAllEnvs()
    })
    const collector = await startCollector()
    const lines: string[] = []
    const heard = listen()
    const analytics = createClient(collector, {
      ...heard.hooks,
      endpoint: collector.url.replace('127.0.0.1', '0.0.0.0'),
      maxRetries: 1,
      logger: { debug: (line) => lines.push(line), warn: () => undefined },
    })
    return { collector, analytics, heard, lines }
  }

  test.each(['socks5://127.0.0.1:1', '::::', 'http://u:100%@127.0.0.1:1', 'ftp://x'])(
    '(%s) lets each attempt fail: nothing is sent past a proxy that may be mandatory',
    async (value) => {
      useFakeClock()
      const { collector, analytics, heard, lines } = await setUp(true, value)
      trackMany(analytics, 1, 0, heard.as)
      const flushed = analytics.flush()
      await pass(1_000)
      expect(await flushed).toEqual({ delivered: 0, failed: 1 })
      expect(heard.codes).toEqual(['e0: retries_exhausted'])
      const wrong = expect.stringMatching(/^HTTP_PROXY: expected http:/) as string
      expect(heard.failed[0]?.error).toMatchObject({ attempts: 2, cause: { message: wrong } })
      expect(lines.filter((line) => line.startsWith('no proxy: HTTP_PROXY: '))).toHaveLength(1)
      expect(collector.arrivals).toEqual([])
    },
  )

  test('has no say where Node cannot use a proxy', async () => {
    const { collector, analytics } = await setUp(false, 'socks5://127.0.0.1:1')
    trackMany(analytics, 1)
    expect(await analytics.flush()).toEqual({ delivered: 1, failed: 0 })
    expect(collector.arrivals).toHaveLength(1)
  })
})

test('the logger is told of the proxy, as DEBUG=analytics is', () => {
  vi.stubEnv('HTTPS_PROXY', 'http://user:s3cret@proxy.example:3128')
  onTestFinished(() => {
    vi.unstubAllEnvs()
  })
  const lines: string[] = []
  const logger = { debug: (line: string) => lines.push(line), warn: () => undefined }
  new Analytics('k', { endpoint: 'https://collect.test', logger })
  const said = canProxy() ? 'proxy %' : 'no proxy: this runtime cannot use %, give the option agent'
  expect(lines).toEqual([said.replace('%', 'http://proxy.example:3128')])
})

test('a client whose endpoint is of this machine asks for no proxy in its own process either', async () => {
  const collector = await startCollector()
  const proxy = await startProxy(0)
  vi.stubEnv('HTTP_PROXY', proxy.url)
  onTestFinished(() => {
    vi.unstubAllEnvs()
  })
  const analytics = new Analytics('k', { endpoint: collector.url })
  trackMany(analytics, 1)
  expect(await analytics.close()).toEqual({ delivered: 1, failed: 0 })
  expect(proxy.connections()).toBe(0)
})
