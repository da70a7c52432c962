import { describe, isDeeperThan, isPlainObject, messageOf } from './describe.js'
import { OptionError } from './errors.js'
import { checkHeaders } from './headers.js'
import { MAX_BODY_BYTES, MAX_DEPTH, MAX_TIMER_MS } from './limits.js'
import type { Logger } from './log.js'
import { currentProcess, fs, http, isBun, zlib } from './runtime.js'
import type { DeliveredReport, FailedReport, Fields, Integrations, WireMessage } from './types.js'

/** The part of a fetch `Response` that the client reads. */
export interface FetchResponse {
  /** The HTTP status. */
  readonly status: number
  /** Of these, `Retry-After`, `Location`, `Content-Length`, `Content-Encoding` and `Transfer-Encoding` are read. */
  readonly headers: {
    /** A header's value, or null. */
    get(name: string): string | null
  }
  /** The body's chunks, if it can be read by chunks. */
  readonly body?: unknown
  /** The body as text. */
  text(): Promise<string>
}

/** What the client asks of a {@link Fetch}. */
export interface FetchInit {
  /** Always a POST. */
  readonly method: 'POST'
  /** Authorization, content type and encoding, user agent, count of retries, and the option `headers`. */
  readonly headers: Record<string, string>
  /** A batch as JSON, perhaps compressed. */
  // This type is the kind of Uint8Array that `fetch` takes in all versions of TypeScript.
  readonly body: ReturnType<Uint8ArrayConstructor['of']>
  /** Redirects are not to be followed. */
  readonly redirect: 'manual'
  /** Aborts when the time is over. */
  readonly signal: AbortSignal
}

/**
 * The part of the WHATWG `fetch` function that the client uses; any `fetch` fits. Its `init` is a {@link FetchInit}.
 * The body of the response is the client's to read: what else wants it, such as a log, reads that of `response.clone()`.
 */
export type Fetch = (
  url: string,
  // The types of node-fetch 3 refuse the bytes, and under `exactOptionalPropertyTypes` the signal, that its code takes.
  // eslint-disable-next-line @typescript-eslint/no-explicit-any
  init: FetchInit & Readonly<Record<'body' | 'signal', any>>,
) => Promise<FetchResponse>

/** The part of an Agent of `node:http` or `node:https` by which the client knows one. */
export interface HttpAgent {
  /** Closes its connections. The client does not call it. */
  destroy(): void
  /** Its connections in use. */
  readonly sockets: object
  /** Its requests that wait for a connection. */
  readonly requests: object
}

/** Where and how {@link AnalyticsOptions.spool} keeps messages. */
export interface SpoolOptions {
  /**
   * A directory on a disk that outlives the process; it is made if need be. Any number of processes may share
   * it. What one leaves behind, the others with its write key send.
   */
  readonly directory: string
  /**
   * Bytes that this client's files may take, at least 1 MiB; `overflow` says who goes when they are full.
   *
   * @defaultValue 1073741824 (1 GiB)
   */
  readonly maxBytes?: number | undefined
  /**
   * `'off'` outlives the process, however it dies. `'batch'` also writes through to the disk, in the background,
   * each time a batch is closed (`flushAt`, `flushAfter`, `flush()`): what was recorded a moment before a power cut can
   * be lost, older messages can't.
   *
   * @defaultValue 'off'
   */
  readonly fsync?: 'off' | 'batch' | undefined
}

/** Options of {@link Analytics}. All have defaults. */
export interface AnalyticsOptions {
  /**
   * Where batches go: an http or https URL. With no path, `/v1/batch` is added.
   *
   * @defaultValue the environment's `ANALYTICS_ENDPOINT`, else `http://127.0.0.1:3300`
   */
  readonly endpoint?: string | URL | undefined
  /**
   * How many messages close a batch. 1 turns batching off: each message is a request of its own, up to 16
   * of them in flight. Source: spec "Resources and their fields", FlushAt.
   *
   * @defaultValue 20
   */
  readonly flushAt?: number | undefined
  /** The spec's other name of `flushAt`. */
  readonly size?: number | undefined
  /**
   * Milliseconds since the last flush after which what is queued is sent, so the longest that a message
   * waits for its batch to fill. Source: spec "Resources and their fields", FlushAfter.
   *
   * @defaultValue 5000
   */
  readonly flushAfter?: number | undefined
  /**
   * The largest body, in bytes of JSON before compression, from 40,000 to 500,000. Lower it for a server or a
   * proxy with a lower limit; a client that is answered 413 also finds the limit by itself.
   * Source: spec "Limits", 500 KB a batch request.
   *
   * @defaultValue 500000
   */
  readonly maxBatchBytes?: number | undefined
  /**
   * Milliseconds that one request may take in all: connection, headers and body. Time in which the process
   * was frozen does not count against an answer that has arrived meanwhile.
   *
   * @defaultValue 10000
   */
  readonly timeout?: number | undefined
  /**
   * Bytes of JSON that may wait for delivery, those in flight included.
   *
   * @defaultValue 67108864 (64 MiB)
   */
  readonly maxQueueBytes?: number | undefined
  /**
   * Who goes when the queue is full: the message that was just recorded, or the oldest that wait.
   *
   * @defaultValue 'drop-newest'
   */
  readonly overflow?: 'drop-newest' | 'drop-oldest' | undefined
  /**
   * How often one batch is tried again. The queue's bound is what limits an outage.
   *
   * @defaultValue Infinity
   */
  readonly maxRetries?: number | undefined
  /**
   * Compress bodies.
   *
   * @defaultValue false
   */
  readonly gzip?: boolean | undefined
  /**
   * Makes the requests. It need not heed the signal that it is given: `timeout` holds all the same.
   *
   * @defaultValue cross-fetch
   */
  readonly fetch?: Fetch | undefined
  /**
   * Opens the connections of the default fetch, on Node: an Agent of `node:http` or `node:https`, or one that
   * extends it, such as that of `https-proxy-agent`. The application closes it: `close()` does not.
   *
   * @defaultValue an agent that keeps connections open, and uses the proxy that `HTTPS_PROXY`, `HTTP_PROXY` and
   * `NO_PROXY` name, on Node 22.21, 24.5 and later
   */
  readonly agent?: HttpAgent | undefined
  /**
   * Extra headers of every request. They cannot replace those that the client sets itself, such as
   * `Authorization` and `Content-Type`. They are never logged.
   *
   * @defaultValue none
   */
  readonly headers?: Readonly<Record<string, string>> | undefined
  /** Context of every message; a message's own keys win. */
  readonly context?: Fields | undefined
  /** Integrations of every message; a message's own keys win. */
  readonly integrations?: Integrations | undefined
  /**
   * Sees each message as it would be sent, and gives back what to send instead, or `null` to drop it.
   * It must be synchronous: the constructor refuses an async function. It has a copy. If it throws, or returns anything
   * else than a message or `null`, the message is dropped, not sent as it is.
   */
  readonly beforeSend?: ((message: WireMessage) => WireMessage | null) | undefined
  /** Called once for each batch that a server accepted. */
  readonly onDelivered?: ((report: DeliveredReport) => void) | undefined
  /**
   * Called with messages that were lost, and why, but for what `beforeSend` or `disabled` dropped. Without this hook,
   * the first loss of each kind is a process warning, or goes to `logger.warn`.
   */
  readonly onFailed?: ((report: FailedReport) => void) | undefined
  /**
   * Gets the lines that `DEBUG=analytics` would show, and, without `onFailed`, the first loss of each kind.
   * `console` fits, and so do pino and winston. It never gets the write key, nor of a message more than its
   * type and id.
   *
   * @defaultValue none
   */
  readonly logger?: Logger | undefined
  /**
   * Keeps a serverless function alive until its messages have their outcome, without delaying its answer: the
   * `waitUntil` of the platform. Called with a promise when a call queues a message; the client then flushes
   * at the end of the current turn of the event loop. The promise never rejects, and resolves after 30 s at
   * the latest.
   *
   * @defaultValue none
   * @example
   * ```ts
   * declare function waitUntil(promise: Promise<unknown>): void // import { waitUntil } from '@vercel/functions'
   *
   * const analytics = new Analytics('WRITE_KEY', { waitUntil })
   * ```
   */
  readonly waitUntil?: ((promise: Promise<unknown>) => void) | undefined
  /**
   * What becomes of a programmer's mistake in a call: thrown, or given to the callback and `onFailed`, for
   * applications that would rather lose an event than a request.
   *
   * @defaultValue 'throw'
   */
  readonly onInvalid?: 'throw' | 'report' | undefined
  /**
   * Accept and validate, but send nothing.
   *
   * @defaultValue false
   */
  readonly disabled?: boolean | undefined
  /**
   * Keeps each message on disk too, from before its call returns until it has its outcome. What a process leaves
   * behind, whatever ended it, is sent by the next one with the same directory and write key, or by another that
   * runs: in order, under the same message ids. `stats()` counts such messages as accepted once they are taken
   * over; they have no callbacks.
   *
   * `close()` leaves on disk what it can't deliver: that stays pending in `stats()`, and its callbacks get a
   * {@link SpoolError} with the code `spooled`.
   *
   * A disk that fails never takes the application down: `onFailed` gets a {@link SpoolError}, and messages wait
   * in memory. Node only.
   *
   * @defaultValue none: in memory only
   * @example
   * ```ts
   * const analytics = new Analytics('WRITE_KEY', { spool: { directory: '/var/lib/shop/analytics' } })
   * ```
   */
  readonly spool?: SpoolOptions | undefined
}

/** The options, checked and completed. */
export interface Settings
  extends
    Required<Pick<AnalyticsOptions, 'overflow' | 'gzip' | 'onInvalid' | 'disabled'>>,
    Pick<
      AnalyticsOptions,
      | 'fetch'
      | 'agent'
      | 'headers'
      | 'context'
      | 'integrations'
      | 'beforeSend'
      | 'onDelivered'
      | 'onFailed'
      | 'logger'
      | 'waitUntil'
    > {
  readonly writeKey: string
  readonly endpoint: URL
  readonly flushAt: number
  readonly flushAfterMs: number
  readonly maxBatchBytes: number
  readonly timeoutMs: number
  readonly maxQueueBytes: number
  readonly maxRetries: number
  readonly spool:
    Required<{ [Option in keyof SpoolOptions]: NonNullable<SpoolOptions[Option]> }> | undefined
}

const DEFAULT_ENDPOINT = 'http://127.0.0.1:3300'
const DEFAULT_PATH = '/v1/batch'

/** Every option, with the names that it has in other clients, where their values mean the same. */
const OPTIONS: Record<keyof AnalyticsOptions, string> = {
  endpoint: 'host dataPlaneUrl serverUrl url path',
  flushAt: 'flushQueueSize batchSize maxEventsInBatch maxBatchSize',
  size: '',
  flushAfter: 'flushInterval flushIntervalMillis interval',
  maxBatchBytes: 'maxBodyBytes maxBodySize maxPayloadBytes',
  timeout: 'httpRequestTimeout requestTimeout requestTimeoutMillis',
  maxQueueBytes: '',
  overflow: '',
  maxRetries: 'retryCount fetchRetryCount flushMaxRetries retries axiosRetryConfig',
  gzip: '',
  fetch: 'httpClient transport transportProvider',
  agent: 'httpAgent httpsAgent proxy proxyAgent',
  headers: 'customHeaders extraHeaders httpHeaders',
  context: 'defaultContext',
  integrations: '',
  beforeSend: 'before_send',
  onDelivered: 'onSuccess',
  onFailed: 'errorHandler onError',
  logger: 'log loggerProvider',
  waitUntil: '',
  onInvalid: '',
  disabled: 'disable optOut',
  spool: 'storageProvider persistence persistentQueueOptions',
}

/** What to do about other names of other clients. */
const ADVICE = {
  'Did you mean disabled, its opposite?': 'enable',
  'Did you mean maxQueueBytes, in bytes?': 'maxInternalQueueSize',
  'Remove it: maxBatchBytes limits a body, and maxQueueBytes what waits.': 'maxQueueSize',
  'Remove it: maxQueueBytes limits an outage.': 'maxTotalBackoffDuration maxRateLimitDuration',
  'Use timeout, headers, agent or fetch.': 'axiosConfig axiosInstance',
  'Set DEBUG=analytics in the environment.': 'debug logLevel verbose',
}

const SPOOL_OPTIONS = ['directory', 'maxBytes', 'fsync']
/** Node takes ~ and a URL for names of directories in the current one. */
const NO_PATH = /^(\s*$|~([/\\]|$)|file:)/i

/** A body has room for one message of the largest size. */
const MIN_BATCH_BYTES = 40_000

/** A spool needs some files at least: with less, it would be full before it held a batch or two. */
const MIN_SPOOL_BYTES = 1024 * 1024

/**
 * Checks the write key and the options of a client.
 *
 * @throws {@link OptionError} that names the option, the rule and what came.
 */
export function checkOptions(writeKey: unknown, options: unknown): Settings {
  checkWriteKey(writeKey)
  if (!isPlainObject(options)) throw wrong('options', 'a plain object', options)
  for (const name of Object.keys(options)) {
    if (!Object.hasOwn(OPTIONS, name)) throw unknownOption(name)
  }
  const given = options as { readonly [Option in keyof AnalyticsOptions]: unknown }
  const flushAt = given.flushAt === undefined ? 'size' : 'flushAt'
  if (given.size !== undefined && flushAt !== 'size') {
    throw new OptionError('size', 'size is another name of flushAt: give one of the two.')
  }
  const gzip = oneOf('gzip', given.gzip, [false, true])
  if (gzip && !zlib) {
    throw new OptionError('gzip', 'gzip needs node:zlib, which this runtime lacks: leave it out.')
  }
  const endpoint = checkEndpoint(given.endpoint)
  const fetch = callable<Fetch>('fetch', given.fetch)
  return {
    writeKey,
    endpoint,
    flushAt: integer(flushAt, given[flushAt], 20, { min: 1 }),
    flushAfterMs: integer('flushAfter', given.flushAfter, 5_000, { min: 1, max: MAX_TIMER_MS }),
    maxBatchBytes: integer('maxBatchBytes', given.maxBatchBytes, MAX_BODY_BYTES, {
      min: MIN_BATCH_BYTES,
      max: MAX_BODY_BYTES,
    }),
    timeoutMs: integer('timeout', given.timeout, 10_000, { min: 1, max: MAX_TIMER_MS }),
    maxQueueBytes: integer('maxQueueBytes', given.maxQueueBytes, 64 * 1024 * 1024, { min: 1 }),
    maxRetries:
      given.maxRetries === Infinity
        ? Infinity
        : integer('maxRetries', given.maxRetries, Infinity, { min: 0 }),
    overflow: oneOf('overflow', given.overflow, ['drop-newest', 'drop-oldest']),
    onInvalid: oneOf('onInvalid', given.onInvalid, ['throw', 'report']),
    disabled: oneOf('disabled', given.disabled, [false, true]),
    gzip,
    fetch,
    agent: checkAgent(given.agent, endpoint, fetch),
    headers: checkHeaders(given.headers),
    context: fields('context', given.context),
    integrations: fields('integrations', given.integrations),
    beforeSend: checkBeforeSend(given.beforeSend),
    onDelivered: callable('onDelivered', given.onDelivered),
    onFailed: callable('onFailed', given.onFailed),
    logger: checkLogger(given.logger),
    waitUntil: callable('waitUntil', given.waitUntil),
    spool: checkSpool(given.spool),
  }
}

function checkWriteKey(writeKey: unknown): asserts writeKey is string {
  // Whatever came may be a key in the wrong place: say its type or what is wrong, not what it is.
  if (typeof writeKey !== 'string' || writeKey.trim() === '') {
    const came = typeof writeKey === 'string' ? 'an empty one' : typeof writeKey
    throw new OptionError(
      'writeKey',
      `The write key of a source comes first, a non-empty string: new Analytics('WRITE_KEY'). Got ${came}.`,
    )
  }
  // It travels as the user name of Basic authentication. Source: RFC 7617 section 2.
  const wrong =
    (writeKey.trim() !== writeKey && 'white space around it') ||
    (/\p{Cc}/u.test(writeKey) && 'a control character') ||
    (writeKey.includes(':') && 'a colon')
  if (!wrong) return
  throw new OptionError(
    'writeKey',
    `The write key must be as it is in the settings of its source, got one with ${wrong}. If it comes from the environment or a file, check what is there.`,
  )
}

function checkLogger(given: unknown): Logger | undefined {
  if (given === undefined) return undefined
  const { debug, warn } = (given ?? {}) as { debug?: unknown; warn?: unknown }
  if (typeof debug === 'function' && typeof warn === 'function') return given as Logger
  const expected = 'an object with the methods debug(line) and warn(line), as console has'
  throw wrong('logger', expected, given)
}

function checkAgent(given: unknown, endpoint: URL, fetch?: Fetch): HttpAgent | undefined {
  if (given === undefined) return undefined
  const refuse = (why: string) => new OptionError('agent', why)
  const isAgent = ['destroy', 'sockets', 'requests'].every((name) => name in Object(given))
  if (!isAgent) throw wrong('agent', 'an Agent of node:http or node:https', given)
  if (fetch) {
    throw refuse(
      'agent needs the default fetch, and fetch was given too: give one of the two, and let your fetch use the agent.',
    )
  }
  if (!http || isBun) {
    throw refuse('agent needs the fetch of Node, which this runtime lacks: give the option fetch.')
  }
  // Node would refuse each request. An agent that serves both protocols has no such property of its own.
  const protocol: unknown = Object.getOwnPropertyDescriptor(given, 'protocol')?.value
  if (typeof protocol === 'string' && protocol !== endpoint.protocol) {
    const wanted = endpoint.protocol.slice(0, -1)
    throw refuse(
      `agent must be one for ${endpoint.protocol}, as the endpoint is, got one for ${protocol} Give an Agent of node:${wanted}.`,
    )
  }
  return given as HttpAgent
}

function checkSpool(given: unknown): Settings['spool'] {
  if (given === undefined) return undefined
  if (!isPlainObject(given)) throw wrong('spool', "a plain object, { directory: '…' }", given)
  const unknown = Object.keys(given).find((name) => !SPOOL_OPTIONS.includes(name))
  if (unknown !== undefined) {
    const advice = `The options of spool are ${SPOOL_OPTIONS.join(', ')}.`
    throw new OptionError(
      `spool.${unknown}`,
      `spool has no option ${JSON.stringify(unknown)}. ${advice}`,
    )
  }
  const { directory, maxBytes, fsync } = given
  if (typeof directory !== 'string' || NO_PATH.test(directory)) {
    throw wrong('spool.directory', 'the path of a directory, without ~ or file:', directory)
  }
  if (!fs || !zlib?.crc32) {
    throw new OptionError('spool', 'spool needs the files of Node, which this runtime lacks.')
  }
  return {
    directory,
    maxBytes: integer('spool.maxBytes', maxBytes, 1024 ** 3, { min: MIN_SPOOL_BYTES }),
    fsync: oneOf('spool.fsync', fsync, ['off', 'batch']),
  }
}

function unknownOption(name: string): OptionError {
  const lowered = name.toLowerCase() || undefined // an empty name means nothing
  const find = (table: object) =>
    Object.entries(table).find(([meant, otherNames]: [string, string]) =>
      [meant, ...otherNames.split(' ')].some((known) => known.toLowerCase() === lowered),
    )?.[0]
  const option = find(OPTIONS)
  const advice = option
    ? `Did you mean ${option}?`
    : (find(ADVICE) ?? `The options are ${Object.keys(OPTIONS).join(', ')}.`)
  return new OptionError(name, `There is no option ${JSON.stringify(name)}. ${advice}`)
}

function checkEndpoint(given: unknown): URL {
  const fromEnvironment =
    given === undefined ? currentProcess()?.env?.['ANALYTICS_ENDPOINT'] : undefined
  const option = fromEnvironment ? 'endpoint (from ANALYTICS_ENDPOINT)' : 'endpoint'
  const text = given === undefined ? fromEnvironment || DEFAULT_ENDPOINT : given
  const refuse = (why: string) =>
    new OptionError(
      'endpoint',
      `${option} must be an http or https URL such as 'https://collect.example.com'${why}.`,
    )

  if (typeof text !== 'string' && !(text instanceof URL)) throw refuse(`, got ${describe(text)}`)
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (!url) throw refuse(`, got ${describe(String(text))}`)
  if (url.protocol !== 'http:' && url.protocol !== 'https:') {
    throw refuse(`, got the protocol ${describe(url.protocol)}`)
  }
  if (url.username || url.password) {
    throw refuse(' without a user name or password: the write key is what identifies the source')
  }
  if (url.pathname === '/') url.pathname = DEFAULT_PATH
  url.hash = ''
  return url
}

function wrong(option: string, expected: string, given: unknown): OptionError {
  return new OptionError(option, `${option} must be ${expected}, got ${describe(given)}.`)
}

function integer(
  option: string,
  given: unknown,
  byDefault: number,
  { min, max = Number.MAX_SAFE_INTEGER }: { min: number; max?: number },
): number {
  if (given === undefined) return byDefault
  if (Number.isInteger(given) && (given as number) >= min && (given as number) <= max) {
    return given as number
  }
  const range = max === Number.MAX_SAFE_INTEGER ? `of at least ${min}` : `from ${min} to ${max}`
  throw wrong(option, `a whole number ${range}`, given)
}

/** One of a few values, of which the first is the default. */
function oneOf<const Value>(
  option: string,
  given: unknown,
  values: readonly [Value, ...Value[]],
): Value {
  if (given === undefined) return values[0]
  const value = values.find((known) => known === given)
  if (value !== undefined) return value
  throw wrong(option, values.map(describe).join(' or '), given)
}

// What comes back is what its option says: that it is a function is all that can be known beforehand.
// eslint-disable-next-line @typescript-eslint/no-unnecessary-type-parameters
function callable<Function>(option: string, given: unknown): Function | undefined {
  if (given === undefined || typeof given === 'function') return given as Function | undefined
  throw wrong(option, 'a function', given)
}

/** An async function is refused here, before a message is lost. Others that return a promise show it only when called. */
function checkBeforeSend(given: unknown): AnalyticsOptions['beforeSend'] {
  const beforeSend = callable<NonNullable<AnalyticsOptions['beforeSend']>>('beforeSend', given)
  if (Object.prototype.toString.call(beforeSend) !== '[object AsyncFunction]') return beforeSend
  const advice = 'Return the message itself, or null to drop it. Await before the call instead.'
  throw new OptionError(
    'beforeSend',
    `beforeSend must be synchronous, but it is an async function. ${advice}`,
  )
}

/** A copy of a plain object, as JSON makes it: what can't be sent is refused here, not at every call. */
function fields(option: string, given: unknown): Record<string, never> | undefined {
  if (given === undefined) return undefined
  if (!isPlainObject(given)) throw wrong(option, 'a plain object', given)
  let json: Record<string, never>
  try {
    json = JSON.parse(JSON.stringify(given)) as Record<string, never>
  } catch (cause) {
    const why = messageOf(cause)
    throw new OptionError(option, `${option} must be a plain object of JSON values: ${why}`)
  }
  if (!isPlainObject(json)) {
    throw new OptionError(
      option,
      `${option} must be a plain object, its toJSON() returns ${describe(json)}.`,
    )
  }
  const levels = MAX_DEPTH - 1 // the message around it is one
  if (!isDeeperThan(levels, json)) return json
  throw new OptionError(option, `${option} must be nested at most ${levels} levels deep.`)
}
