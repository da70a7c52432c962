import { turn } from '../model/slices.js'
import { InOrder } from '../model/in-order.js'
import { errorMessage } from '../observe/error-message.js'
import type { Log } from '../observe/log.js'
import { checkReload } from '../settings/reload.js'
import type { Settings } from '../settings/settings.js'
import type { OnRecords } from '../store/follower.js'
import { isManaged, type Managed, type Unusable } from './managed.js'

/**
 * Prepares the use of other settings, in slices, while the present ones stay in use.
 *
 * @returns Call it to use them. It may return a promise that resolves once everything of the former settings has ended.
 */
export type Prepare = (next: Settings) => Promise<() => Promise<void> | void>

/**
 * The settings in use, and their changes. A change is prepared by each part of the process, and then all of them use it in the
 * same turn of the event loop. One change ends before the next begins.
 */
export class LiveSettings {
  readonly #managed: Managed
  readonly #log: Log
  #current: Settings
  readonly #prepares: Prepare[] = []
  readonly #listeners: ((settings: Settings) => Promise<void>)[] = []
  readonly #inOrder = new InOrder()

  /** Begins with the settings that `managed` has now. */
  constructor(managed: Managed, log: Log) {
    this.#managed = managed
    this.#log = log
    this.#current = managed.settings()
  }

  get current(): Settings {
    return this.#current
  }

  /** Has a part of the process use each change. */
  usedBy(prepare: Prepare): void {
    this.#prepares.push(prepare)
  }

  /**
   * Called after each change, before the next one begins, and again when the last request by the former settings has ended, because such a request is
   * still counted.
   */
  afterwards(listener: (settings: Settings) => Promise<void>): void {
    this.#listeners.push(listener)
  }

  /** Uses changes of the settings in the store. */
  follow(...[records, isComplete]: Parameters<OnRecords>): Promise<void> {
    return this.inTurn(async () => {
      // Pauses and alerts are records too, and change no settings.
      if (!isComplete && !records.some(({ kind }) => isManaged(kind))) {
        this.#managed.owners.take(records, isComplete)
        return
      }
      this.#logUnusable(await this.#managed.take(records, isComplete))
      await this.#use()
    })
  }

  /**
   * Uses another version of the settings file.
   *
   * @throws Error if the file changes what can't change; SettingsError if it does not fit to the settings in the store. The
   * former settings stay in use then.
   */
  reload(file: Settings): Promise<void> {
    return this.inTurn(async () => {
      checkReload(this.#current, file)
      const { unusable, undo } = await this.#managed.useFile(file)
      this.#logUnusable(unusable)
      try {
        await this.#use()
      } catch (error) {
        undo()
        throw error
      }
    })
  }

  /** Does something between two changes. */
  inTurn<T>(work: () => Promise<T>): Promise<T> {
    return this.#inOrder.run(work)
  }

  /** Nothing waits until everything of the former settings has ended: a request may take 5 s. */
  async #use(): Promise<void> {
    const next = this.#managed.settings()
    const uses: Awaited<ReturnType<Prepare>>[] = []
    for (const prepare of this.#prepares) uses.push(await prepare(next))
    await turn()
    this.#current = next
    void this.#end(uses.map(async (use) => use()))
    await this.#tell()
  }

  async #end(ends: readonly Promise<void>[]): Promise<void> {
    try {
      await Promise.all(ends)
    } catch (error) {
      this.#log.warn({ error: errorMessage(error) }, 'what the former settings used was not closed')
    }
    await this.inTurn(() => this.#tell())
  }

  async #tell(): Promise<void> {
    for (const listener of this.#listeners) await listener(this.#current)
  }

  #logUnusable(unusable: readonly Unusable[]): void {
    for (const one of unusable) {
      this.#log.error(one, 'a change of the settings in the store cannot be used here')
    }
  }
}
