// What the tests have in common: a collector that answers by script, a fetch that does, clients that are
// closed when their test ends, and ways to wait that take no time of their own.
import { spawn } from 'node:child_process'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { gunzipSync } from 'node:zlib'
import { inject, onTestFinished, vi } from 'vitest'
import {
  Analytics,
  type AnalyticsOptions,
  type DeliveredReport,
  type FailedReport,
  type Fetch,
  type FetchInit,
  type FetchResponse,
  type HooklineError,
  type WireMessage,
} from '../src/index.js'
import { followClock } from './clock.js'
import { keepPort } from './ports.js'

interface Envelope {
  batch: WireMessage[]
  messageId: string
  sentAt: string
}

/** A request as it arrived. */
export interface Arrival {
  method: string
  path: string
  headers: Record<string, string>
  /** The body as it came, and as it was before it was compressed. */
  bytes: Buffer
  json: string
  body: Envelope
  messages: WireMessage[]
}

/** How the collector meets a request. */
export type Reply =
  | number
  | { status?: number; headers?: Record<string, string>; body?: string }
  /** Reset before the body was read, after it was, in the middle of the reply, right after a whole one. */
  | 'reset unread'
  | 'reset'
  | 'reset in reply'
  | 'reset after reply'
  /** Nothing; headers and then nothing; a byte at a time without end; megabytes without end. */
  | 'silence'
  | 'headers only'
  | 'drip'
  | 'flood'
  | ((arrival: Arrival) => Reply | Promise<Reply>)

export interface Collector {
  readonly url: string
  readonly arrivals: Arrival[]
  /** Messages of the accepted requests (2xx), in the order of arrival. */
  readonly accepted: WireMessage[]
  readonly openSockets: number
  readonly mostInFlight: number
  /** The next requests meet these; those after them, `otherwise`. */
  script(...replies: Reply[]): void
  otherwise(reply: Reply): void
  /** Once so many requests arrived. */
  arrived(count: number): Promise<void>
  /** Once no connection is open. */
  disconnected(): Promise<void>
  /** Refuses connections from now on, and drops those that are open; `open` takes the same port again. */
  shut(): Promise<void>
  open(): Promise<void>
}

const OK = '{"success":true}'

/** Starts a collector on a free port, for the length of the test. Concurrent tests say whose end that is. */
export async function startCollector(atEnd = onTestFinished): Promise<Collector> {
  const replies: Reply[] = []
  const arrivals: Arrival[] = []
  const accepted: WireMessage[] = []
  const sockets = new Set<Socket>()
  const checks = new Set<() => void>()
  let otherwise: Reply = 200
  let inFlight = 0
  let mostInFlight = 0
  let port = 0
  let keeper: Socket | undefined

  const changed = () => {
    for (const check of checks) check()
  }
  const until = (holds: () => boolean) =>
    new Promise<void>((resolve) => {
      const check = () => {
        if (!holds()) return
        checks.delete(check)
        resolve()
      }
      checks.add(check)
      check()
    })

  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const planned = replies.shift() ?? otherwise
    if (planned === 'reset unread') {
      request.socket.resetAndDestroy()
      return
    }
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk as Buffer)
    const arrival = read(request, Buffer.concat(chunks))
    arrivals.push(arrival)
    mostInFlight = Math.max(mostInFlight, ++inFlight)
    changed()
    let reply: Reply = planned
    while (typeof reply === 'function') reply = await reply(arrival)
    inFlight--
    answer(reply, arrival, request.socket, response)
  }

  function answer(reply: Reply, arrival: Arrival, socket: Socket, response: ServerResponse): void {
    switch (reply) {
      case 'reset unread':
      case 'reset':
        socket.resetAndDestroy()
        return
      case 'reset in reply':
        response.writeHead(200, { 'Content-Length': '100' })
        response.write('{"succ', () => socket.destroy())
        return
      case 'silence':
        return
      case 'headers only':
        response.writeHead(200).flushHeaders()
        return
      case 'drip': {
        response.writeHead(200)
        const drip = setInterval(() => response.write(' '), 1)
        response.once('close', () => {
          clearInterval(drip)
        })
        return
      }
      case 'flood':
        response.writeHead(200)
        flood(response)
        return
    }
    const { status = 200, headers = {}, body = OK } = toParts(reply)
    if (status >= 200 && status < 300) accepted.push(...arrival.messages)
    const text = status === 204 ? '' : body
    response.writeHead(status, { 'Content-Type': 'application/json', ...headers }).end(text, () => {
      if (reply === 'reset after reply') socket.destroy()
    })
  }

  const server = createServer((request, response) => {
    serve(request, response).catch(() => request.socket.destroy())
  })
  server.on('connection', (socket) => {
    sockets.add(socket)
    socket.on('error', () => undefined)
    socket.once('close', () => {
      sockets.delete(socket)
      changed()
    })
  })

  async function stop(): Promise<void> {
    if (!server.listening) return
    const closed = new Promise((resolve) => server.close(resolve))
    for (const socket of sockets) socket.destroy()
    await closed
  }

  const collector: Collector = {
    get url() {
      return `http://127.0.0.1:${port}`
    },
    arrivals,
    accepted,
    get openSockets() {
      return sockets.size
    },
    get mostInFlight() {
      return mostInFlight
    },
    script: (...more) => {
      replies.push(...more)
    },
    otherwise: (reply) => {
      otherwise = reply
    },
    arrived: (count) => until(() => arrivals.length >= count),
    disconnected: () => until(() => sockets.size === 0),
    shut: async () => {
      await stop()
      keeper ??= await keepPort(port)
    },
    open: async () => {
      keeper?.resetAndDestroy()
      keeper = undefined
      await new Promise<void>((resolve, reject) => {
        server.once('error', reject).listen(port, '127.0.0.1', resolve)
      })
      port = (server.address() as AddressInfo).port
    },
  }
  await collector.open()
  atEnd(async () => {
    await stop()
    keeper?.resetAndDestroy()
  })
  return collector
}

function read(request: IncomingMessage, bytes: Buffer): Arrival {
  const isZipped = request.headers['content-encoding'] === 'gzip'
  const json = (isZipped ? gunzipSync(bytes) : bytes).toString()
  const body = JSON.parse(json) as Envelope
  return {
    method: request.method ?? '',
    path: request.url ?? '',
    headers: request.headers as Record<string, string>,
    bytes,
    json,
    body,
    messages: body.batch,
  }
}

function toParts(reply: Reply): {
  status?: number
  headers?: Record<string, string>
  body?: string
} {
  if (typeof reply === 'number') return { status: reply }
  return typeof reply === 'object' ? reply : {}
}

function flood(response: ServerResponse): void {
  const block = Buffer.alloc(65_536, ' ')
  const pour = () => {
    while (!response.destroyed && response.write(block));
  }
  response.on('drain', pour)
  pour()
}

/** What a request meets whose answer the test gives later. */
export function held(): { reply: Reply; release: (reply?: Reply) => void } {
  let release!: (reply: Reply) => void
  const given = new Promise<Reply>((resolve) => {
    release = resolve
  })
  return {
    reply: () => given,
    release: (reply = 200) => {
      release(reply)
    },
  }
}

/** What a scripted fetch does: answers, throws, or hangs. */
export type FetchReply =
  | number
  | { status?: number; headers?: Record<string, string>; body?: string }
  | Error
  | 'hang'
  | ((request: Arrival, init: FetchInit) => FetchReply | Promise<FetchReply>)

export interface ScriptedFetch {
  readonly fetch: Fetch
  readonly arrivals: Arrival[]
  script(...replies: FetchReply[]): void
  otherwise(reply: FetchReply): void
}

/** A fetch without a network, so that a fake clock is the only one: the request is there when it is called. */
export function scriptedFetch(...replies: FetchReply[]): ScriptedFetch {
  const arrivals: Arrival[] = []
  let otherwise: FetchReply = 200
  const fetch = async (url: string, init: FetchInit): Promise<FetchResponse> => {
    const bytes = Buffer.from(init.body)
    const json = bytes.toString()
    const body = JSON.parse(json) as Envelope
    const { method, headers } = init
    const lowered = Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value])
    const arrival: Arrival = {
      method,
      path: new URL(url).pathname,
      headers: Object.fromEntries(lowered) as Record<string, string>,
      bytes,
      json,
      body,
      messages: body.batch,
    }
    arrivals.push(arrival)
    let reply = replies.shift() ?? otherwise
    while (typeof reply === 'function') reply = await reply(arrival, init)
    if (reply instanceof Error) throw reply
    if (reply === 'hang') return new Promise<never>(() => undefined)
    const parts = typeof reply === 'number' ? { status: reply } : reply
    const { status = 200, headers: given = {}, body: text = OK } = parts
    return new Response(status === 204 || status === 304 ? null : text, { status, headers: given })
  }
  return {
    fetch,
    arrivals,
    script: (...more) => {
      replies.push(...more)
    },
    otherwise: (reply) => {
      otherwise = reply
    },
  }
}

export const WRITE_KEY = 'wk_4f9a-secret'

/** The pace of a client that retries without delay. */
export const AT_ONCE = {
  backoffMs: () => 0,
  gatherMs: 0,
  later: (act: () => void) => void setImmediate(act),
}

/** Without it, each loss that a test provokes would be a warning in its output. */
const quiet = { onFailed: () => undefined }

/** A client that is given up when the test ends. */
export function createClient(
  to: Collector | ScriptedFetch,
  options: AnalyticsOptions = {},
): Analytics {
  const target = 'fetch' in to ? { fetch: to.fetch } : { endpoint: to.url }
  const analytics = new Analytics(WRITE_KEY, { ...quiet, ...target, ...options })
  onTestFinished(async () => {
    vi.useRealTimers()
    await analytics.close({ timeout: 0 })
  })
  return analytics
}

/** Puts the SDK on a fake clock; sockets and `setImmediate` stay as they are. */
export function useFakeClock(now: string = TIME): void {
  vi.useFakeTimers({
    toFake: ['setTimeout', 'clearTimeout', 'Date', 'performance'],
    now: new Date(now),
  })
  followClock(true)
  onTestFinished(() => {
    vi.useRealTimers()
    followClock(false)
  })
}

/** Lets everything happen that needs no time and no network. */
export async function turns(): Promise<void> {
  for (let turn = 0; turn < 10; turn++) await new Promise((resolve) => setImmediate(resolve))
}

/** Lets so much time pass on the fake clock, and happen what it brings. */
export async function pass(ms: number): Promise<void> {
  await turns()
  await vi.advanceTimersByTimeAsync(ms)
  await turns()
}

/** Lets the network have its turns, on a clock that stands still, until something holds. */
export async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await new Promise((resolve) => setImmediate(resolve))
}

/** For clients on a fake clock and a real network: the clock may run, their requests are in time. */
export const IN_TIME = { timeout: 2_147_483_647 }

/** Runs the clock and the network until something holds. The client has to be given `IN_TIME`. */
export async function passUntil(holds: () => boolean): Promise<void> {
  while (!holds()) await pass(100)
}

/** Collects what hooks and callbacks are told. */
export function listen() {
  const delivered: DeliveredReport[] = []
  const failed: FailedReport[] = []
  const outcomes: { name: string; error: HooklineError | undefined }[] = []
  return {
    delivered,
    failed,
    outcomes,
    /** The codes of what callbacks were told, `ok` for what was delivered. */
    get codes() {
      return outcomes.map(({ name, error }) => `${name}: ${error?.code ?? 'ok'}`)
    },
    hooks: {
      onDelivered: (report: DeliveredReport) => {
        delivered.push(report)
      },
      onFailed: (report: FailedReport) => {
        failed.push(report)
      },
    },
    as: (name: string) => (error?: HooklineError) => {
      outcomes.push({ name, error })
    },
  }
}

/** Numbered messages: e0, e1, … */
export function trackMany(
  analytics: Analytics,
  count: number,
  from = 0,
  callback?: (name: string) => (error?: HooklineError) => void,
): void {
  for (let i = from; i < from + count; i++) {
    analytics.track({ userId: 'u', event: `e${i}` }, callback?.(`e${i}`))
  }
}

/** The events that a request carried, or several. */
export function events(...arrivals: (Arrival | undefined)[]): (string | undefined)[] {
  return arrivals.flatMap((arrival) => arrival?.messages.map(({ event }) => event) ?? [])
}

/** The names of numbered messages. */
export function names(from: number, to: number): string[] {
  return Array.from({ length: to - from }, (_, i) => `e${from + i}`)
}

export const countEvents = (arrivals: Arrival[]) => arrivals.map(({ messages }) => messages.length)

/** A track whose JSON takes exactly so many bytes, filled with `fill`. */
export function sized(bytes: number, fill = 'x', event = 'e') {
  const message = { userId: 'u', event, messageId: 'm', timestamp: TIME, properties: { fill: '' } }
  const room = bytes - wireBytes(message)
  const each = Buffer.byteLength(JSON.stringify(fill)) - 2
  message.properties.fill = fill.repeat(Math.floor(room / each)) + 'x'.repeat(room % each)
  return message
}

export const TIME = '2026-01-02T03:04:05.678Z'

function wireBytes(message: object): number {
  const library = { name: 'hookline', version: '0.1.0' }
  return Buffer.byteLength(JSON.stringify({ type: 'track', ...message, context: { library } }))
}

/** Catches what a function throws. */
export function thrownBy(act: () => unknown): unknown {
  try {
    act()
  } catch (error) {
    return error
  }
  throw new Error('it did not throw')
}

/** What became of a script. */
export interface Ended {
  code: number | null
  signal: string | null
  stdout: string
  stderr: string
}

interface RunOptions {
  env?: Record<string, string>
  flags?: string[]
  /** The working directory, inside that of the compiled sources. */
  cwd?: string
  /** Is told the process id. */
  onStart?: (pid: number) => void
}

/** Runs a script as {@link runModule} does, with `Analytics` imported. */
export function runScript(source: string, options: RunOptions = {}): Promise<Ended> {
  return runModule(`import { Analytics } from 'hookline'\n${source}`, options)
}

/**
 * Runs a module as a process of its own, and waits until it ends. It imports `hookline` from the compiled sources.
 * One that does not end is killed, and has no exit code.
 */
export function runModule(
  source: string,
  { env = {}, flags = [], cwd = inject('compiledDir'), onStart }: RunOptions = {},
): Promise<Ended> {
  // What Node itself has to say of what is new in it is not what these tests are about.
  const quiet = ['--disable-warning=ExperimentalWarning', '--disable-warning=DeprecationWarning']
  const given = [...quiet, ...flags, '--input-type=module', '--eval', source]
  const clean = Object.fromEntries(
    Object.entries(process.env).filter(([name]) => !/^(DEBUG|NODE_OPTIONS|ANALYTICS_)/.test(name)),
  )
  const child = spawn(process.execPath, given, {
    cwd,
    env: { ...clean, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: 60_000,
    killSignal: 'SIGKILL',
  })
  onStart?.(child.pid ?? 0)
  let stdout = ''
  let stderr = ''
  child.stdout.setEncoding('utf8').on('data', (text: string) => (stdout += text))
  child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text))
  return new Promise((resolve, reject) => {
    child.once('error', reject)
    child.once('close', (code, signal) => {
      resolve({ code, signal, stdout, stderr })
    })
  })
}
