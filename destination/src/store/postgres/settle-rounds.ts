import type { Settlement } from '../../model/delivery.js'
import { StoreError } from '../store-error.js'
import type { RunAll, RunQuery, Statement } from './connection.js'
import { Rounds } from './rounds.js'
import type { SettleAnswer } from './settle.js'
import type { Tables } from './tables.js'

/**
 * In ms: the least time between two small rounds of settlements. Nothing waits for a settlement, and a round of a few costs the
 * server almost as much as one of many. A process that is killed in this time sends these messages again.
 */
const PAUSE_MS = 5

/** In ms: how long a statement waits for the round that is under way, to be in the transaction of the next one. */
const PATIENCE_MS = 50

/**
 * In ms: how long a transaction that is shared waits for a lock. Then its parts are carried out alone, and only the settlements
 * wait.
 */
const LOCK_MS = 50

/** A statement of somebody else that is waiting to be in the transaction of a round. */
interface Guest extends Statement {
  timer: NodeJS.Timeout
  resolve: (rows: never[]) => void
  reject: (error: unknown) => void
}

/**
 * Joins settlements into rounds, and a claim into the transaction of a round where both are wanted at the same time: one commit
 * costs the server half of what two cost. Neither fails because of the other.
 */
export class SettleRounds {
  readonly #rounds: Rounds<Settlement, SettleAnswer>
  readonly #tables: Pick<Tables, 'prepared' | 'preparedAll'>
  readonly #settle: (settlements: Settlement[], share?: RunAll) => Promise<SettleAnswer[]>
  #guest: Guest | undefined

  /**
   * @param settle - Carries out a round. It runs its statements by `share` once, if it is given. After an error of this, it goes
   * on without it.
   */
  constructor(
    tables: Pick<Tables, 'prepared' | 'preparedAll'>,
    settle: (settlements: Settlement[], share?: RunAll) => Promise<SettleAnswer[]>,
  ) {
    this.#tables = tables
    this.#settle = settle
    this.#rounds = new Rounds(
      (all) => this.#run(all),
      () => false,
      PAUSE_MS,
    )
  }

  ask(settlements: Settlement[]): Promise<SettleAnswer[]> {
    return this.#rounds.ask(settlements)
  }

  /**
   * Runs a prepared statement: in the transaction of the next round, if one is wanted or under way, or else at once. It comes after
   * the settlements. It must wait for no lock, because it would keep the rows of the settlements locked meanwhile.
   */
  readonly join: RunQuery = (text, values) => {
    if (this.#guest || !this.#rounds.isBusy) return this.#tables.prepared(text, values)
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        this.#runAlone(this.#take())
      }, PATIENCE_MS)
      this.#guest = { text, values, timer, resolve, reject }
      // A call without settlements makes the next round start at once. Its error is that of the others.
      this.#rounds.ask([]).catch(() => undefined)
    })
  }

  async #run(settlements: Settlement[]): Promise<SettleAnswer[]> {
    let guest = this.#take()
    const share: RunAll = async (statements) => {
      const sharing = guest
      guest = undefined
      return sharing ? this.#runWith(sharing, statements) : this.#tables.preparedAll(statements)
    }
    try {
      return await this.#settle(settlements, guest && share)
    } finally {
      // Nothing was left to settle, so that there was no transaction.
      this.#runAlone(guest)
    }
  }

  async #runWith(guest: Guest, statements: Statement[]): Promise<never[][]> {
    try {
      const results = await this.#tables.preparedAll<never>([...statements, guest], LOCK_MS)
      guest.resolve(results.pop() ?? [])
      return results
    } catch (error) {
      if (error instanceof StoreError && error.isUnreachable) guest.reject(error)
      else this.#runAlone(guest)
      throw error
    }
  }

  #take(): Guest | undefined {
    const guest = this.#guest
    this.#guest = undefined
    clearTimeout(guest?.timer)
    return guest
  }

  #runAlone(guest: Guest | undefined): void {
    if (guest)
      this.#tables.prepared<never>(guest.text, guest.values).then(guest.resolve, guest.reject)
  }
}
