import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type {
  Claim,
  Delivery,
  DeliveryId,
  NewDelivery,
  Settlement,
  State,
} from '../../src/model/delivery.js'
import type { DueLane, PurgedPart } from '../../src/store/store.js'
import type { OpenDatabase } from '../../src/store/sqlite/driver.js'
import type { Answer, Queries, Query, Round } from '../../src/store/sqlite/round.js'
import { MemoryTables, MemoryWorkers } from './memory-store.js'
import type { Stage } from './stage.js'

/** A store without its waiting: each call is carried out at once. */
export interface Backend {
  put(deliveries: NewDelivery[]): (DeliveryId | undefined)[]
  claim(claims: Claim[]): Delivery[]
  due(): DueLane[]
  /** @returns whether each was accepted. */
  settle(settlements: Settlement[]): boolean[]
  replay(ids: readonly DeliveryId[], lane: 'backlog' | 'bulk'): DeliveryId[]
  sweep(olderThanMs: number, limit: number): number
  /** Deletes all of a user. @returns which of it was leased. */
  purge(user: string): DeliveryId[]
  stateOf(id: DeliveryId): State | undefined
  count(): number
  /** What several workers share; `undefined` if only one process can use the store. */
  workers: MemoryWorkers | undefined
  /** The process that had it open has ended, and another one opens it. */
  reopen(): void
  /** Somebody sets the system's clock. */
  jump(byMs: number): void
  close(): void
}

export function memoryBackend(now: () => number): Backend {
  const tables = new MemoryTables(now)
  return {
    put: (deliveries) => tables.put(deliveries),
    claim: (claims) => tables.claim(claims),
    due: () => tables.due(),
    settle: (settlements) => tables.settle(settlements),
    replay: (ids, lane) => tables.replay(ids, false, lane),
    sweep: (olderThanMs, limit) => tables.sweep(olderThanMs, limit),
    purge: (user) => tables.purge(user),
    stateOf: (id) => tables.stateOf(id),
    count: () => tables.count(),
    workers: new MemoryWorkers(now),
    reopen: () => undefined,
    jump: () => undefined,
    close: () => undefined,
  }
}

/**
 * The engine of the real SQLite store, on a file of its own.
 *
 * @param isShared - Whether several workers use it.
 */
export function sqliteBackend(
  stage: Pick<Stage, 'Engine'>,
  open: OpenDatabase,
  now: () => number,
  isShared: boolean,
): Backend {
  const folder = mkdtempSync(join(tmpdir(), 'hookline-simulation-'))
  const path = join(folder, 'store.db')
  /** How far the system's clock is ahead of the virtual one, and how far it was when the process started. */
  let wallMs = 1_700_000_000_000
  let startMs = wallMs
  const at = () => ({ now: startMs + now(), wall: wallMs + now() })
  let engine = new stage.Engine(open, { path, at: at(), isRestart: false })
  const nothing = (): Round => ({
    at: at(),
    settlements: [],
    deliveries: [],
    claims: [],
    queries: [],
  })
  const ask = <Name extends keyof Queries>(ask: Name, ...given: Parameters<Queries[Name]>) => {
    // The casts hold: a query's answer has the type that `Engine` gives for it.
    const query = { ask, given } as Query
    const [answer] = engine.run({ ...nothing(), queries: [query] }).answers
    return valueOf(answer ?? { failure: 'no answer' }) as Answer<Name>
  }
  return {
    put: (deliveries) => valueOf(engine.run({ ...nothing(), deliveries }).put),
    claim: (claims) => valueOf(engine.run({ ...nothing(), claims }).claimed).flat(),
    due: () => ask('due'),
    settle: (settlements) => valueOf(engine.run({ ...nothing(), settlements }).settled),
    replay: (ids, lane) => ask('replay', ids, false, lane),
    sweep: (olderThanMs, limit) => ask('sweep', olderThanMs, limit).changed,
    purge: (user) => {
      const leased: DeliveryId[] = []
      for (let from: number | undefined = 0; from !== undefined;) {
        const part: PurgedPart = ask('purgeUser', user, from)
        leased.push(...part.leased)
        from = part.next
      }
      return leased
    },
    stateOf: (id) => ask('get', id)?.state,
    count: () => ask('count'),
    workers: isShared ? new MemoryWorkers(now) : undefined,
    jump: (byMs) => {
      wallMs += byMs
    },
    reopen: () => {
      engine.close(at())
      startMs = wallMs
      engine = new stage.Engine(open, { path, at: at(), isRestart: false })
    },
    close: () => {
      engine.close(at())
      rmSync(folder, { recursive: true })
    },
  }
}

function valueOf<T>(result: { value: T } | { failure: unknown }): T {
  if ('value' in result) return result.value
  throw new Error(`the engine failed: ${JSON.stringify(result.failure)}`)
}
