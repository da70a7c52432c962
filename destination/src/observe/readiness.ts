import type { FastifyInstance } from 'fastify'
import { JSON_TYPE } from '../http/refusal.js'

/** A reason why the destination is not ready. The codes are stable. */
export interface Ailment {
  code: 'dispatcher_stalled' | 'store_unavailable' | 'stopping'
  message: string
}

/** What readiness is told by. */
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
  /** A look at the store. */
  look: () => Promise<unknown>
  /** A monotonic clock, in ms. */
  now: () => number
}

/** What took longer than this, in ms, has stalled: the dispatcher moves several times a second. */
const STALLED_MS = 10_000

/** The store is to answer a look within so many ms; whoever asks for readiness waits no longer. */
const LOOK_MS = 2_000

/** For so long after calls were refused, in ms, they are sent elsewhere. Then it shows whether the store takes some again. */
const REFUSED_MS = 10_000

/** Tells whether calls that are sent here are taken, and go out: more than that the process answers. */
export class Readiness {
  #refusedAt = -Infinity
  #isStopping = false

  constructor(readonly parts: ReadinessParts) {}

  /** The store did not take calls. */
  refused(): void {
    this.#refusedAt = this.parts.now()
  }

  stop(): void {
    this.#isStopping = true
  }

  /** Why it is not ready; nothing if it is. */
  async ailments(): Promise<Ailment[]> {
    const { dispatcher, settler, look, now } = this.parts
    const found: Ailment[] = []
    const add = (code: Ailment['code'], message: string) => found.push({ code, message })

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
    } else if (settler.isFailing || dispatcher.hasClaimFailed || !(await answers(look))) {
      add('store_unavailable', 'The store fails, or does not answer, which the log says.')
    }
    return found
  }
}

async function answers(look: () => Promise<unknown>): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<false>((resolve) => {
    timer = setTimeout(resolve, LOOK_MS, false)
  })
  const looked = look().then(
    () => true,
    () => false,
  )
  const isAnswered = await Promise.race([looked, late])
  clearTimeout(timer)
  return isAnswered
}

/** Adds `/healthz`, which the process answers while it lives, and `/readyz`: 503 with the reasons while it is not ready. */
export function addHealthRoutes(
  app: FastifyInstance,
  readiness: Pick<Readiness, 'ailments'>,
): void {
  app.get('/healthz', (_request, reply) =>
    reply.headers(HEADERS).send(JSON.stringify({ status: 'ok' })),
  )
  app.get('/readyz', async (_request, reply) => {
    const reasons = await readiness.ailments()
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
