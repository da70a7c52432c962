import type { FastifyInstance } from 'fastify'
import { JSON_TYPE } from '../http/refusal.js'
import { StoreError } from '../store/store-error.js'
import type { ReadPort, Store } from '../store/store.js'
import type { Observer } from './events.js'

/** A reason why the destination is not ready. The codes are stable. */
export interface NotReady {
  code: 'dispatcher_stalled' | 'store_unavailable' | 'stopping'
  message: string
}

/** What the readiness depends on. */
export interface ReadinessParts {
  dispatcher: {
    /** How long it has waited for its timer or for the store, in ms. */
    stalledMs(): number
    /** Whether its last claim failed. */
    readonly hasClaimFailed: boolean
  }
  settler: {
    /** How long it has waited for the store, in ms. */
    stalledMs(): number
    readonly isFailing: boolean
  }
  store: Pick<ReadPort, 'ping'> & Pick<Store, 'servers'>
  /** A monotonic clock, in ms. */
  now: () => number
}

/** In ms. The dispatcher runs several times a second, so a longer wait means that it has stalled. */
const STALLED_MS = 10_000

/** The time limit for a ping of the store, in ms. A request for the readiness takes no longer than this. */
const PING_MS = 2_000

/**
 * In ms. After the store has refused calls, the destination is not ready until the store takes some, so that load balancers send
 * calls elsewhere. If none come for this time, it is ready again, and the next ones show whether the store takes them.
 */
const REFUSED_MS = 10_000

/** Whether this process accepts and delivers calls. A process that only answers requests is not ready. */
export class Readiness implements Observer {
  readonly #parts: ReadinessParts
  #refusedAt = -Infinity
  #isStopping = false

  constructor(parts: ReadinessParts) {
    this.#parts = parts
  }

  /** The store could not take deliveries. One of several servers that fails is no reason to send calls elsewhere. */
  storeRefused(error: unknown): void {
    if (error instanceof StoreError && error.server !== undefined) return
    this.#refusedAt = this.#parts.now()
  }

  /**
   * The store took deliveries. Only new ones tell that it writes: for those that it has, it may answer without writing anything, also
   * if its disk is full.
   */
  committed(_ms: number, isAnyNew: boolean): void {
    if (isAnyNew) this.#refusedAt = -Infinity
  }

  stop(): void {
    this.#isStopping = true
  }

  /** The servers of the store that fail, while the others work. */
  away(): string[] {
    const servers = this.#parts.store.servers?.list() ?? []
    return servers.flatMap(({ name, error }) => (error ? [name] : []))
  }

  /** The reasons why the destination is not ready; empty if it is ready. */
  async reasons(): Promise<NotReady[]> {
    const { dispatcher, settler } = this.#parts
    const found: NotReady[] = []
    const add = (code: NotReady['code'], message: string) => found.push({ code, message })

    if (this.#isStopping) add('stopping', 'The destination is stopping.')
    const stalledMs = Math.max(dispatcher.stalledMs(), settler.stalledMs())
    if (stalledMs > STALLED_MS) {
      const seconds = Math.round(stalledMs / 1_000)
      add(
        'dispatcher_stalled',
        `Nothing has been sent for ${seconds} s, because the store does not answer.`,
      )
    }
    const problem = await this.storeProblem()
    if (problem !== undefined) add('store_unavailable', problem)
    return found
  }

  /** Whether the store answers, and takes calls and outcomes. It is `false` exactly while a reason is `store_unavailable`. */
  async isStoreUp(): Promise<boolean> {
    return (await this.storeProblem()) === undefined
  }

  /** What is wrong while a reason is `store_unavailable`. */
  async storeProblem(): Promise<string | undefined> {
    const { dispatcher, settler, store, now } = this.#parts
    if (now() - this.#refusedAt < REFUSED_MS) {
      return 'The store takes no calls, because it is full or fails. The log has the error.'
    }
    if (!settler.isFailing && !dispatcher.hasClaimFailed && (await answers(store))) return undefined
    return 'The store fails or does not answer. The log has the error.'
  }
}

/** Whether the store answers in time. */
async function answers(store: Pick<ReadPort, 'ping'>): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<false>((resolve) => {
    timer = setTimeout(resolve, PING_MS, false)
  })
  const pinged = store.ping().then(
    () => true,
    () => false,
  )
  const isAnswered = await Promise.race([pinged, late])
  clearTimeout(timer)
  return isAnswered
}

/** Adds `/healthz`, which always answers 200, and `/readyz`, which answers 503 with the reasons while not ready. */
export function addReadinessRoutes(
  app: FastifyInstance,
  readiness: Pick<Readiness, 'reasons'> & Partial<Pick<Readiness, 'away'>>,
): void {
  app.get('/healthz', (_request, reply) =>
    reply.headers(HEADERS).send(JSON.stringify({ status: 'ok' })),
  )
  app.get('/readyz', async (_request, reply) => {
    const reasons = await readiness.reasons()
    if (reasons.length === 0) {
      const away = readiness.away?.() ?? []
      const answer = { status: 'ready', ...(away.length > 0 && { away }) }
      return reply.headers(HEADERS).send(JSON.stringify(answer))
    }
    return reply
      .code(503)
      .headers(HEADERS)
      .send(JSON.stringify({ status: 'not ready', reasons }))
  })
}

const HEADERS = { 'content-type': JSON_TYPE, 'cache-control': 'no-store' }
