import { StoreError } from '../store-error.js'
import type { ServerPort, ServerState } from '../servers.js'
import type { Shared, Store } from '../store.js'

/** In ms: how often a server that is away is tried again. */
const RETRY_MS = 1_000

/**
 * In ms: a server whose answer was lost has this long to answer another question. A single connection that was cut does not make it
 * away.
 */
const CHECK_MS = 1_000

/** In ms: a server that took no message counts as failing for so long, unless it takes one. Nothing asks it to store one meanwhile. */
const REFUSED_MS = 10_000

/** A store in PostgreSQL that is one of several. */
export interface ServerStore extends Store {
  readonly asServer: ServerPort
  readonly shared: Shared
}

/** What can fail at a server, apart from others. `reach` is that it does not answer at all. */
type Work = 'reach' | 'put' | 'claim' | 'settle'

/** What a server needs to be used. */
export interface ServerParts {
  name: string
  number: number
  /** Opens its store, if it is not given. It makes sure that it is the right one. */
  open: () => Promise<ServerStore>
  /** Called whenever the server begins to fail, can't be reached for another reason, or works again. */
  changed: (state: ServerState) => void
}

/**
 * One of the servers. If it can't be reached, it is away: further questions are refused at once, so that nothing waits for it, until
 * an attempt, which is made once a second, has reached it.
 */
export class Server {
  readonly name: string
  readonly number: number
  readonly #parts: ServerParts
  #store: ServerStore | undefined
  readonly #errors = new Map<Work, StoreError>()
  #timer: NodeJS.Timeout | undefined
  #refusedTimer: NodeJS.Timeout | undefined
  #trying: Promise<void> | undefined
  #isSuspected = false
  #isClosed = false

  /** @param store - Its store if it could be opened, else why not. */
  constructor(parts: ServerParts, store: ServerStore | StoreError) {
    this.#parts = parts
    this.name = parts.name
    this.number = parts.number
    if (store instanceof StoreError) this.noteFailure('reach', store)
    else this.#store = store
  }

  get isAway(): boolean {
    return this.#errors.has('reach')
  }

  /** Why it does not work; `undefined` if it does. */
  get error(): StoreError | undefined {
    return this.#errors.values().next().value
  }

  get state(): ServerState {
    return { name: this.name, error: this.error }
  }

  /** The store, whatever its state; `undefined` if it has not been opened yet. */
  get store(): ServerStore | undefined {
    return this.#store
  }

  /**
   * Asks the server something.
   *
   * @throws StoreError with the name of the server; at once if it is away.
   */
  async ask<T>(question: (store: ServerStore) => Promise<T>): Promise<T> {
    const store = this.#store
    const reason = this.#errors.get('reach')
    if (!store || reason) throw this.#named(reason, false)
    try {
      return await question(store)
    } catch (error) {
      // A move asks one server while it works at another one.
      if (!(error instanceof StoreError) || error.server !== undefined) throw error
      if (isAway(error)) this.#suspect(store, error)
      throw this.#named(error)
    }
  }

  /** Notes that something fails. What can't be reached is tried again from now on. */
  noteFailure(work: Work, error: StoreError): void {
    if (this.#isClosed) return
    const before = this.#errors.get(work)
    this.#errors.set(work, error)
    const isOther = work === 'reach' && before?.message !== error.message
    if (!before || isOther) this.#parts.changed(this.state)
    if (!before && work === 'reach') this.#tryLater()
    if (work !== 'put') return
    clearTimeout(this.#refusedTimer)
    this.#refusedTimer = setTimeout(() => {
      this.noteSuccess('put')
    }, REFUSED_MS).unref()
  }

  noteSuccess(work: Work): void {
    if (this.#errors.delete(work)) this.#parts.changed(this.state)
  }

  /** Stops trying to reach the server, waits for the questions under way, and closes the store. */
  async close(): Promise<void> {
    this.#isClosed = true
    clearTimeout(this.#timer)
    clearTimeout(this.#refusedTimer)
    await this.#trying
    await this.#store?.close()
  }

  /**
   * After a question that failed, pings the server: only if the ping fails too is the server away. If the question got no answer at all,
   * a ping that takes longer than {@link CHECK_MS} has failed, too.
   */
  #suspect(store: ServerStore, error: StoreError): void {
    if (this.#isClosed || this.#isSuspected) return
    this.#isSuspected = true
    const note = () => {
      this.noteFailure('reach', error)
    }
    const late = error.isUnreachable ? setTimeout(note, CHECK_MS).unref() : undefined
    const ended = (failure?: StoreError) => {
      clearTimeout(late)
      this.#isSuspected = false
      if (failure) this.noteFailure('reach', failure)
    }
    store.ping().then(
      () => {
        ended()
      },
      () => {
        ended(error)
      },
    )
  }

  #tryLater(): void {
    if (this.#isClosed) return
    this.#timer = setTimeout(() => {
      this.#trying = this.#try()
    }, RETRY_MS)
    this.#timer.unref()
  }

  async #try(): Promise<void> {
    try {
      this.#store ??= await this.#parts.open()
      await this.#store.ping()
      this.noteSuccess('reach')
    } catch (error) {
      // Whatever the reason is now, only a server that answers is used.
      if (error instanceof StoreError) this.noteFailure('reach', error)
      this.#tryLater()
    }
  }

  /** @param isAsked - Whether the server was asked. If not, it can't be used at all now, for whatever reason. */
  #named(cause: StoreError | undefined, isAsked = true): StoreError {
    const { code = 'failed', message = 'store: not opened', mayPass = false } = cause ?? {}
    return new StoreError(code, `server ${this.name}: ${message}`, {
      cause: cause?.cause,
      isUnreachable: !isAsked || (cause?.isUnreachable ?? true),
      isUnsure: isAsked && (cause?.isUnsure ?? false),
      mayPass,
      server: this.name,
    })
  }
}

/** Whether a server can't be used now, and may be used later without anybody who repairs the settings or the tables. */
export function isAway(error: unknown): boolean {
  return error instanceof StoreError && (error.isUnreachable || error.mayPass)
}
