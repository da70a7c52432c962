import type { RefusingQuota } from '../collect/quotas.js'
import type { Observer } from './events.js'
import type { Log } from './log.js'

/** A quota that has refused nothing for this time, in ms, refuses no more. A tenant at its limit is refused again and again. */
const QUIET_MS = 60_000

interface Refusing {
  requests: number
  timer: NodeJS.Timeout
}

/** Logs when a quota of a tenant begins to refuse requests, and when it refuses no more, but no request in between. */
export class QuotaLines implements Observer {
  readonly #log: Pick<Log, 'warn' | 'info'>
  readonly #refusing = new Map<string, Refusing>()

  constructor(log: Pick<Log, 'warn' | 'info'>) {
    this.#log = log
  }

  /** A request was refused. */
  quotaRefused(tenant: string, quota: RefusingQuota): void {
    const key = `${quota} ${tenant}`
    const known = this.#refusing.get(key)
    if (known) {
      known.requests++
      known.timer.refresh()
      return
    }
    this.#log.warn({ tenant, quota }, 'a quota of this tenant refuses calls')
    const timer = setTimeout(() => {
      const { requests = 0 } = this.#refusing.get(key) ?? {}
      this.#refusing.delete(key)
      this.#log.info({ tenant, quota, requests }, 'the quota of this tenant refuses no more calls')
    }, QUIET_MS).unref()
    this.#refusing.set(key, { requests: 1, timer })
  }
}
