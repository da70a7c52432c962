// The endpoints of a round, and what is known of them from outside.
import { createHmac } from 'node:crypto'
import type { Outcome, OutcomeCode } from '../../src/model/outcome.js'
import type { Dice } from './chance.js'
import type { VirtualClock } from './clock.js'

/** What an endpoint does for a while. */
export type Mode =
  | { kind: 'up' }
  /** It answers a status to a share of the requests. */
  | { kind: 'status'; status: number; share: number; retryAfterMs?: number }
  | { kind: 'reset' }
  /** It does not answer until the deadline. */
  | { kind: 'hang' }

/** An endpoint as its owner has built it. */
export interface ServerPlan {
  url: string
  latencyMs: readonly [number, number]
  /** It answers 429 beyond this rate. */
  takes: number | undefined
  /** The wait that it asks for in a 429. */
  retryAfterMs: number | undefined
  /** The secrets that it knows; `undefined` if it checks none. */
  secrets: readonly string[] | undefined
  /** What it does from a time on, in order. Before, it is up. */
  phases: readonly { from: number; mode: Mode }[]
}

/** The deadline of an attempt, in ms. */
const DEADLINE_MS = 5_000

/** The longest wait that an endpoint is granted, in ms. Source: README, "What you can rely on". */
export const MAX_RETRY_AFTER_MS = 300_000

/** What a request has come to. */
export interface Reply {
  status: number | undefined
  code: OutcomeCode
  afterMs: number
  retryAfterMs: number | undefined
  /** Whether the endpoint has the message now, whatever it said. */
  hasStored: boolean
}

const UP: Mode = { kind: 'up' }

/** One endpoint in a round. */
export class Server {
  mode: Mode = UP
  secrets: readonly string[] | undefined
  /** Since when it takes all messages that are good and signed right, but for those beyond its rate. */
  upSince = 0
  /** Since when it takes none; `undefined` while it is up. */
  downSince: number | undefined
  /** Until when the sender may keep away, because it was asked to. */
  excusedUntil = 0
  #isHealed = false
  #tokens: number
  #filledAt = 0

  constructor(
    readonly plan: ServerPlan,
    readonly clock: VirtualClock,
    readonly dice: Dice,
  ) {
    this.secrets = plan.secrets
    this.#tokens = plan.takes ?? 0
    for (const { from, mode } of plan.phases) {
      clock.after(from, () => {
        if (!this.#isHealed) this.become(mode)
      })
    }
  }

  /** Nothing fails any more. */
  heal(): void {
    this.#isHealed = true
    if (this.mode.kind !== 'up') this.become(UP)
  }

  become(mode: Mode): void {
    this.mode = mode
    const isDown =
      mode.kind === 'status' ? mode.status >= 500 && mode.share === 1 : mode.kind !== 'up'
    this.upSince = mode.kind === 'up' ? this.clock.now : Infinity
    this.downSince = isDown ? (this.downSince ?? this.clock.now) : undefined
  }

  /** Whether it knows the secret of a signature. */
  knows(body: string, signature: string | undefined): boolean {
    if (this.secrets === undefined) return true
    return this.secrets.some(
      (secret) => createHmac('sha1', secret).update(body).digest('hex') === signature,
    )
  }

  /** @param isPoison - Whether the message makes it fail for ever. */
  answer(body: string, signature: string | undefined, isPoison: boolean): Reply {
    const reply = this.#answer(body, signature, isPoison)
    const { retryAfterMs = 0, afterMs } = reply
    const waitMs = Math.min(retryAfterMs, MAX_RETRY_AFTER_MS) * 1.2
    if (waitMs > 0) {
      this.excusedUntil = Math.max(this.excusedUntil, this.clock.now + afterMs + waitMs)
    }
    return reply
  }

  #answer(body: string, signature: string | undefined, isPoison: boolean): Reply {
    const { mode, dice, plan } = this
    const [least, most] = plan.latencyMs
    const afterMs = dice.between(least, most)
    const reply = (status: number, retryAfterMs?: number): Reply => ({
      status,
      ...{ code: codeOf(status), afterMs, retryAfterMs, hasStored: status === 200 },
    })
    if (mode.kind === 'hang') return this.#silence('timeout', DEADLINE_MS)
    if (mode.kind === 'reset') return this.#silence('connection_reset', afterMs)
    if (mode.kind === 'status' && dice.chance(mode.share)) {
      return reply(mode.status, mode.retryAfterMs)
    }
    if (plan.takes !== undefined && !this.#take(plan.takes)) return reply(429, plan.retryAfterMs)
    if (!this.knows(body, signature)) return reply(401)
    return reply(isPoison ? 500 : 200)
  }

  #silence(code: OutcomeCode, afterMs: number): Reply {
    const hasStored = this.dice.chance(0.3)
    return { status: undefined, code, afterMs, retryAfterMs: undefined, hasStored }
  }

  /** A token bucket of one second. */
  #take(perSecond: number): boolean {
    const { now } = this.clock
    this.#tokens = Math.min(perSecond, this.#tokens + ((now - this.#filledAt) * perSecond) / 1_000)
    this.#filledAt = now
    if (this.#tokens < 1) return false
    this.#tokens--
    return true
  }
}

function codeOf(status: number): OutcomeCode {
  if (status === 200) return 'delivered'
  if (status === 429) return 'throttled'
  return status >= 500 ? 'server_error' : 'client_error'
}

/** What the poster makes of a reply. */
export function outcomeOf({ status, code, afterMs, retryAfterMs }: Reply): Outcome {
  const verdict = code === 'delivered' ? 'delivered' : code === 'client_error' ? 'refused' : 'retry'
  const error = code === 'delivered' ? undefined : code
  const waitMs = retryAfterMs && Math.min(retryAfterMs, MAX_RETRY_AFTER_MS)
  return { code, verdict, status, ms: afterMs, retryAfterMs: waitMs, response: '', error }
}
