import type { Source } from '../settings/settings.js'
import { StoreError } from '../store/store-error.js'
import type { Accept } from '../enqueue/calls.js'
import { addCallRoutes, type CallCounts, type Intake } from './routes.js'
import { credentialsOf } from './credentials.js'
import { bucketsOf } from './rate-limit.js'
import { createServer, type Patience, type Server, type ServerLog } from '../http/server.js'

/** What a collector is made of. */
export interface CollectorOptions {
  /** Without it no calls are taken: there are the other routes alone. */
  accept?: Accept | undefined
  /** Who may send calls. */
  sources: readonly Source[]
  log: ServerLog
  /** Told of every request, and of its calls. */
  counts: CallCounts
  /**
   * How long clients may take.
   *
   * @defaultValue 10 s for the headers, 30 s for all of it
   */
  patience?: Patience
  /**
   * The clock of the rate limits, monotonic, in ms.
   *
   * @defaultValue `performance.now`
   */
  now?: () => number
}

/** Takes calls over HTTP, from {@link Server.listen} to {@link Server.close}. */
export interface Collector extends Server {
  /** Replaces the sources and their keys; requests that are under way go on. */
  use(sources: readonly Source[]): void
}

const HINT = 'Calls go to POST /v1/batch, or one by one to /v1/track and the like.'

const WORKER_HINT = 'This is a worker: calls go to a collector.'

/** Makes a collector. */
export function createCollector(options: CollectorOptions): Collector {
  const { sources, log, counts, patience } = options
  const now = options.now ?? (() => performance.now())
  const server = createServer(log, options.accept ? HINT : WORKER_HINT, patience)
  const intake: Intake | undefined = options.accept && {
    accept: reporting(options.accept, log),
    credentials: credentialsOf(sources),
    buckets: bucketsOf(sources, new Map(), now),
    counts,
  }
  if (intake) addCallRoutes(server.app, intake)
  return {
    ...server,
    use: (next) => {
      if (!intake) return
      intake.credentials = credentialsOf(next)
      intake.buckets = bucketsOf(next, intake.buckets, now)
    },
  }
}

/** Logs when the store begins to refuse and when it takes calls again, not each request in between. */
function reporting(accept: Accept, log: ServerLog): Accept {
  let isRefusing = false
  return async (source, calls, traceParent) => {
    try {
      await accept(source, calls, traceParent)
    } catch (error) {
      if (error instanceof StoreError && !isRefusing) {
        isRefusing = true
        log.error({ err: error }, 'the store takes no calls: clients are answered 503')
      }
      throw error
    }
    if (!isRefusing) return
    isRefusing = false
    log.warn({}, 'the store takes calls again')
  }
}
