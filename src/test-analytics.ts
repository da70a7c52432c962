import { Analytics } from './analytics.js'
import { isPage } from './attempt.js'
import { describe, isPlainObject } from './describe.js'
import type { AnalyticsOptions, FetchInit } from './options.js'
import { isCutJson, isListBegun, readRejections } from './rejections.js'
import { judge } from './retry.js'
import { decoder } from './runtime.js'
import type { Pace } from './send.js'
import type { AnyPlan, MessageType, PlanOf, WireMessage } from './types.js'

/**
 * What a scripted request meets: an HTTP status, an answer, a connection that is reset (`'reset'`), or no
 * answer in time (`'timeout'`; it comes at once, no test waits for it).
 */
export type Fault =
  | number
  | 'reset'
  | 'timeout'
  | {
      /** The answer's HTTP status. */
      readonly status: number
      /** The answer's headers. */
      readonly headers?: Readonly<Record<string, string>>
      /** The answer's body. */
      readonly body?: string
    }

/** One request that the client made. */
export interface CapturedRequest {
  /** The URL that it went to. */
  readonly url: string
  /** Its headers. */
  readonly headers: Readonly<Record<string, string>>
  /** The messages that it carried. */
  readonly messages: readonly WireMessage[]
  /** What it met: an HTTP status, or a connection that failed. */
  readonly outcome: number | 'reset' | 'timeout'
}

/** A message of one type. */
export type MessageOf<Type extends MessageType> = WireMessage & {
  /** Tells the types apart. */
  readonly type: Type
}

/** The messages that were delivered, in order: all of them, and those of each type. */
export type CapturedMessages = {
  /** Messages of this type. */
  readonly [Type in MessageType]: readonly MessageOf<Type>[]
} & {
  /** Messages of every type. */
  readonly all: readonly WireMessage[]
}

/** A client for tests, and what it sent. */
export interface TestAnalytics<Plan extends PlanOf<Plan> = AnyPlan> {
  /** The client: the real one, but for its network. Give it to the code under test. */
  readonly analytics: Analytics<Plan>
  /** What was delivered so far. Await `analytics.flush()` first. */
  readonly messages: CapturedMessages
  /** Each request so far, failed ones too. */
  readonly requests: readonly CapturedRequest[]
  /**
   * Lets the next requests meet these faults, one each; requests after them are accepted.
   *
   * @throws TypeError for what is no fault
   */
  readonly fail: (...faults: Fault[]) => void
  /** Forgets what was captured, and the faults that are left. */
  readonly reset: () => void
}

/**
 * Makes a client that needs no network: it validates, batches, retries and reports as in production, and
 * keeps what it delivers where a test can look at it. Retries come without delay.
 *
 * @param options - options of the client, as in production; those of its network (`fetch`, `agent`, `gzip`) have no effect
 *
 * @example
 * ```ts
 * import { createTestAnalytics } from 'hookline/testing'
 *
 * const { analytics, messages, fail } = createTestAnalytics()
 * fail(503, 'reset')
 * analytics.track({ userId: 'u1', event: 'Order Completed', properties: { total: 42 } })
 * await analytics.flush()
 * console.log(messages.track[0]?.properties) // { total: 42 }
 * ```
 */
export function createTestAnalytics<Plan extends PlanOf<Plan> = AnyPlan>(
  options: Omit<AnalyticsOptions, 'fetch' | 'agent' | 'gzip'> = {},
): TestAnalytics<Plan> {
  const faults: Fault[] = []
  const requests: CapturedRequest[] = []
  const delivered: WireMessage[] = []

  // eslint-disable-next-line @typescript-eslint/require-await -- rejects where it throws
  const fetch = async (url: string, { headers, body }: FetchInit) => {
    const messages = readBatch(body)
    const fault = faults.shift() ?? 200
    const answer = typeof fault === 'number' ? { status: fault } : fault
    const outcome = typeof answer === 'object' ? answer.status : answer
    requests.push({ url, headers, messages, outcome })
    if (typeof answer !== 'object') {
      throw Object.assign(new Error(`scripted fault: ${answer}`), { code: CODES[answer] })
    }
    return accept(answer, messages)
  }

  const noNetwork = { fetch, gzip: false, agent: undefined }

  const accept = (answer: Exclude<Fault, number | string>, messages: readonly WireMessage[]) => {
    const { status, headers = {}, body = '' } = answer
    // The client sends a batch again whose answer ends inside its list of refused messages, or is a page.
    const isLost = isPage(body) || (isCutJson(body) && isListBegun(body))
    if (judge(status, messages.length) === 'delivered' && !isLost) {
      const rejections = readRejections(body, messages.length)
      delivered.push(...messages.filter((_, index) => !rejections.has(index)))
    }
    const find = (name: string) =>
      Object.entries(headers).find(([key]) => key.toLowerCase() === name.toLowerCase())
    return {
      status,
      headers: { get: (name: string) => find(name)?.[1] ?? null },
      text: () => Promise.resolve(body),
    }
  }

  return {
    analytics: new Analytics<Plan>('TEST_WRITE_KEY', { ...options, ...noNetwork }, AT_ONCE),
    messages: byType(delivered),
    requests,
    fail: (...more) => {
      for (const fault of more) checkFault(fault)
      faults.push(...more)
    },
    reset: () => {
      for (const list of [faults, requests, delivered]) list.length = 0
    },
  }
}

/** The codes by which the client knows such failures of a fetch. */
const CODES = { reset: 'ECONNRESET', timeout: 'UND_ERR_HEADERS_TIMEOUT' }

function checkFault(fault: unknown): void {
  if (typeof fault === 'string' && Object.hasOwn(CODES, fault)) return
  const status = isPlainObject(fault) ? fault['status'] : fault
  if (!Number.isInteger(status) || (status as number) < 200 || (status as number) > 599) {
    throw new TypeError(
      `fail() takes statuses from 200 to 599, 'reset', 'timeout', or answers such as { status: 503 }, got ${describe(fault)}.`,
    )
  }
  const { headers = {}, body = '', ...rest } = isPlainObject(fault) ? fault : {}
  const wrong = Object.entries({ ...rest, headers, body }).find(([name, value]) => {
    if (name === 'headers') return !isPlainObject(value)
    return name === 'body' ? typeof value !== 'string' : name !== 'status'
  })
  if (!wrong) return
  throw new TypeError(
    `fail() takes answers of a status, headers (a plain object) and a body (a string), got ${wrong[0]}: ${describe(wrong[1])}.`,
  )
}

/** Promises alone drive a test client: the fake timers of a test must not stop it. */
const AT_ONCE: Pace = {
  backoffMs: () => 0,
  gatherMs: 0,
  later: (act) => void Promise.resolve().then(act),
}

function readBatch(body: Uint8Array): WireMessage[] {
  return (JSON.parse(decoder.decode(body)) as { batch: WireMessage[] }).batch
}

/** A view of the list that is always up to date. */
function byType(all: readonly WireMessage[]): CapturedMessages {
  const of = <Type extends MessageType>(type: Type) =>
    all.filter((message): message is MessageOf<Type> => message.type === type)
  return {
    all,
    get identify() {
      return of('identify')
    },
    get track() {
      return of('track')
    },
    get page() {
      return of('page')
    },
    get screen() {
      return of('screen')
    },
    get group() {
      return of('group')
    },
    get alias() {
      return of('alias')
    },
  }
}
