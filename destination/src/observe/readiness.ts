import type { FastifyInstance } from 'fastify'
import { JSON_TYPE } from '../http/refusal.js'
import type { ReadPort } from '../store/store.js'
import type { Observer } from './events.js'

/** A reason why the destination is not ready. The codes are stable. */
export interface NotReady {
  code: 'dispatcher_stalled' | 'store_unavailable' | 'stopping'
  message: string
}

/** What readiness asks. */
export interface ReadinessParts {
  dispatcher: {
    /** For how long it has waited for its timer, or for the store, in ms. */
    stalledMs(): number
    /** Whether the store did not let it claim. */
    readonly hasClaimFailed: boolean
  }
  settler: {
    /** For how long it has waited for the store, in ms. */
    stalledMs(): number
    readonly isFailing: boolean
  }
  store: Pick<ReadPort, 'ping'>
  /** A monotonic clock, in ms. */
  now: () => number
}

/** What took longer than this, in ms, has stalled: the dispatcher moves several times a second. */
const STALLED_MS = 10_000

/** The store must answer a ping within so many ms. A request for the readiness waits no longer. */
const PING_MS = 2_000

/**
 * After the store refused calls, it is not ready for so long, in ms, and load balancers send calls elsewhere. Then the next
 * calls show whether the store takes them again.
 */
const REFUSED_MS = 10_000

/** Whether calls that are sent here are accepted and delivered. That is more than the fact that the process answers. */
export class Readiness implements Observer {
  #refusedAt = -Infinity
  #isStopping = false

  constructor(readonly parts: ReadinessParts) {}

  /** The store could not take deliveries. */
  storeRefused(): void {
    this.#refusedAt = this.parts.now()
  }

  stop(): void {
    this.#isStopping = true
  }

  /** Why it is not ready; empty if it is ready. */
  async reasons(): Promise<NotReady[]> {
    const { dispatcher, settler, store, now } = this.parts
    const found: NotReady[] = []
    const add = (code: NotReady['code'], message: string) => found.push({ code, message })

    if (this.#isStopping) add('stopping', 'It is being stopped.')
    const stalledMs = Math.max(dispatcher.stalledMs(), settler.stalledMs())
    if (stalledMs > STALLED_MS) {
      const seconds = Math.round(stalledMs / 1_000)
      add(
        'dispatcher_stalled',
        `Nothing has been sent for ${seconds} s: the store does not answer.`,
      )
    }
    if (now() - this.#refusedAt < REFUSED_MS) {
      add('store_unavailable', 'The store takes no calls: it is full or fails, which the log says.')
    } else if (settler.isFailing || dispatcher.hasClaimFailed || !(await answers(store))) {
      add('store_unavailable', 'The store fails, or does not answer, which the log says.')
    }
    return found
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

/** Adds `/healthz`, which the process answers while it lives, and `/readyz`: 503 with the reasons while it is not ready. */
export function addReadinessRoutes(
  app: FastifyInstance,
  readiness: Pick<Readiness, 'reasons'>,
): void {
  app.get('/healthz', (_request, reply) =>
    reply.headers(HEADERS).send(JSON.stringify({ status: 'ok' })),
  )
  app.get('/readyz', async (_request, reply) => {
    const reasons = await readiness.reasons()
    if (reasons.length === 0) {
      return reply.headers(HEADERS).send(JSON.stringify({ status: 'ready' }))
    }
    return reply
      .code(503)
      .headers(HEADERS)
      .send(JSON.stringify({ status: 'not ready', reasons }))
  })
}

const HEADERS = { 'content-type': JSON_TYPE, 'cache-control': 'no-store' }
