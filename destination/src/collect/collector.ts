import type { EnqueueCalls } from '../enqueue/calls.js'
import { ArrivingBytes } from '../http/arriving-bytes.js'
import { createServer, type Server, type ServerLog, type Timeouts } from '../http/server.js'
import { createCredentials } from './credentials.js'
import { Admission } from './admission.js'
import { PendingBytes } from '../http/pending-bytes.js'
import { Quotas, type QuotaSettings, type QuotasParts } from './quotas.js'
import type { Forwarding } from './warnings.js'
import { addCallRoutes, type CallRoutesParts, type CollectEvents } from './routes.js'

/** What a collector needs. */
export interface CollectorOptions {
  /** Left out in a worker, which accepts no calls: its server has only the other routes. */
  enqueueCalls?: EnqueueCalls | undefined
  forwarding: Forwarding
  /** The sources that may send calls, with their write keys, and the quotas of their tenants. */
  settings: QuotaSettings
  /** The messages that wait for the destinations of each tenant. */
  waiting: QuotasParts['waiting']
  log: ServerLog
  events: CollectEvents
  /**
   * How long clients may take.
   *
   * @defaultValue 10 s for the headers, 30 s for the whole request
   */
  timeouts?: Timeouts
  /**
   * The most bytes of bodies that have arrived in part. Beyond them, the one that began first is answered 503.
   *
   * @defaultValue 64 MB
   */
  maxArrivingBytes?: number | undefined
  /**
   * The most bytes of bodies whose calls wait to be read or for a commit. Further requests are answered 503.
   *
   * @defaultValue 32 MB
   */
  maxPendingBytes?: number | undefined
  /**
   * How many messages wait that their endpoints would take: only this process holds them up.
   *
   * @defaultValue none
   */
  behind?: () => number
  /**
   * The clock of the rates, monotonic, in ms.
   *
   * @defaultValue `performance.now`
   */
  now?: () => number
}

/** Accepts calls over HTTP, from {@link Server.listen} to {@link Server.close}. */
export interface Collector extends Server {
  /**
   * Prepares the use of other sources, keys and quotas.
   *
   * @returns Call it to use them. Requests that are under way are not interrupted. One whose body is still arriving needs a key that
   * is valid once the body is there.
   */
  prepare(settings: QuotaSettings): Promise<() => void>
}

const HINT =
  'Send calls to POST /v1/batch, or one at a time to POST /v1/track, /v1/identify and so on. ' +
  'With an adminListen in the settings, audiences, deletions and the admin API are at that address.'

const WORKER_HINT = 'This process is a worker. Send calls to a collector.'

/** Creates a collector. It does not listen yet. */
export async function createCollector(options: CollectorOptions): Promise<Collector> {
  const { enqueueCalls, forwarding, settings, waiting, log, events, timeouts } = options
  const { maxArrivingBytes, maxPendingBytes } = options
  const { behind = () => 0, now = () => performance.now() } = options
  const server = createServer(log, enqueueCalls ? HINT : WORKER_HINT, { timeouts })
  const credentialsOf = createCredentials()
  const parts: CallRoutesParts | undefined = enqueueCalls && {
    enqueueCalls,
    forwarding,
    events,
    credentials: await credentialsOf(settings.sources),
    quotas: new Quotas(settings, {
      waiting,
      refused: (...quota) => {
        events.quotaRefused(...quota)
      },
      now,
    }),
    admission: new Admission({ behind, now: () => performance.now() }),
    arriving: new ArrivingBytes(maxArrivingBytes),
    pending: new PendingBytes(maxPendingBytes),
  }
  if (parts) addCallRoutes(server.app, parts)
  return {
    ...server,
    close: (withinMs) => {
      parts?.admission.close()
      return server.close(withinMs)
    },
    prepare: async (next) => {
      if (!parts) return () => undefined
      const credentials = await credentialsOf(next.sources)
      return () => {
        parts.credentials = credentials
        parts.quotas.use(next)
      }
    },
  }
}
