import { setTimeout as wait } from 'node:timers/promises'
import type { FastifyInstance } from 'fastify'
import { JSON_TYPE } from './refusal.js'

/** A dispatcher that has not got on for so long, in ms, has stalled: its ticks are a fraction of a second apart. */
const STALLED_MS = 15_000

/** How long the store may take to answer, in ms: less than the usual patience of who asks. */
const ANSWER_MS = 2_000

/** What is looked at. */
export interface HealthParts {
  /** Asks the store for something; rejects if it can't answer. */
  askStore: () => Promise<unknown>
  /** For how long the dispatcher has not got on, in ms. */
  stalledMs: () => number
  /** Whether the process is about to end. */
  isStopping: () => boolean
}

/** Why a process is not ready. The codes are stable. */
export interface Unready {
  code: 'store_failing' | 'dispatcher_stalled' | 'stopping'
  message: string
}

/**
 * Adds `/healthz`, which answers while the process does, and `/readyz`, which answers 200 while it can do its work too,
 * and else 503 with the reasons.
 */
export function addHealthRoutes(app: FastifyInstance, parts: HealthParts): void {
  app.get('/healthz', (_request, reply) =>
    reply.header('content-type', JSON_TYPE).send('{"healthy":true}'),
  )
  app.get('/readyz', async (_request, reply) => {
    const reasons = await unready(parts)
    return reply
      .code(reasons.length === 0 ? 200 : 503)
      .header('content-type', JSON_TYPE)
      .send(JSON.stringify({ ready: reasons.length === 0, reasons }))
  })
}

async function unready({ askStore, stalledMs, isStopping }: HealthParts): Promise<Unready[]> {
  const reasons: Unready[] = []
  if (isStopping()) reasons.push({ code: 'stopping', message: 'It ends what is under way.' })
  const stalled = stalledMs()
  if (stalled > STALLED_MS) {
    const message = `The dispatcher has not got on for ${Math.round(stalled / 1_000)} s.`
    reasons.push({ code: 'dispatcher_stalled', message })
  }
  // Whoever asks may be anybody: where the store is, and what it said, is in the log.
  if (!(await answers(askStore))) {
    const message = 'The store does not answer: see the log.'
    reasons.push({ code: 'store_failing', message })
  }
  return reasons
}

async function answers(askStore: () => Promise<unknown>): Promise<boolean> {
  const late = new AbortController()
  const asked = askStore().then(
    () => true,
    () => false,
  )
  try {
    return await Promise.race([asked, wait(ANSWER_MS, false, { signal: late.signal })])
  } finally {
    late.abort()
  }
}
