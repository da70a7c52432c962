// The deliver stage on a virtual clock: the real dispatcher, queues, breakers and settler, a store in memory, and endpoints
// that a test describes. Call it with fake timers.
import { expect, vi } from 'vitest'
import type { DeliverEvents } from '../../src/deliver/deliverer.js'
import type { DestinationQueue } from '../../src/deliver/destination-queue.js'
import { destinationQueues } from '../../src/deliver/destination-queues.js'
import { Dispatcher, type DispatcherParts } from '../../src/deliver/dispatcher.js'
import { ProcessRoom } from '../../src/deliver/process-room.js'
import { Settler } from '../../src/deliver/settler.js'
import { TenantRoom } from '../../src/deliver/tenant-room.js'
import type { Claim, Delivery, Lane, Settlement } from '../../src/model/delivery.js'
import type { Outcome, OutcomeCode } from '../../src/model/outcome.js'
import type { Destination, Endpoint } from '../../src/settings/settings.js'
import { LANES } from '../../src/store/states.js'
import { NEWEST } from '../../src/store/store.js'

/** How an endpoint answers a request. */
export interface Answer {
  code: OutcomeCode
  afterMs: number
  retryAfterMs?: number
}

/** @param nowMs - The virtual time, in ms since the start. */
export type Behaviour = (message: string, nowMs: number) => Answer

interface Row {
  id: number
  message: string
  state: Lane | 'leased' | 'done' | 'dead'
  dueAt: number
  attempt: number
  firstAt: number | undefined
  refusedBy: readonly string[]
  arrivedAt: number
  /** When it was delivered. */
  doneAt: number | undefined
}

/** The rows of a lane that wait, the longest due first. */
class Waiting {
  readonly #rows: Row[] = []

  add(row: Row): void {
    this.#rows.splice(this.#count(row.dueAt, row.id), 0, row)
  }

  delete(row: Row): void {
    const index = this.#count(row.dueAt, row.id)
    if (this.#rows[index] === row) this.#rows.splice(index, 1)
  }

  due(now: number): Row[] {
    return this.#rows.slice(0, this.#count(now, Infinity))
  }

  /** How many rows come before one with this time and this id. */
  #count(dueAt: number, id: number): number {
    let low = 0
    let high = this.#rows.length
    while (low < high) {
      const middle = (low + high) >> 1
      const row = this.#rows[middle] as Row
      if (row.dueAt < dueAt || (row.dueAt === dueAt && row.id < id)) low = middle + 1
      else high = middle
    }
    return low
  }
}

/**
 * A destination `crm` with these endpoints.
 *
 * @param maxUnderWay - See {@link DispatcherParts}.
 * @param quota - The most requests at once of its tenant. By default it has none.
 */
export function createWorld(
  endpoints: readonly { settings: Endpoint; behave: Behaviour }[],
  random: () => number,
  maxUnderWay?: DispatcherParts['maxUnderWay'],
  quota?: number,
) {
  const startedAt = performance.now()
  const now = () => performance.now()
  const rows: Row[] = []
  const waiting: Record<Lane, Waiting> = {
    fresh: new Waiting(),
    backlog: new Waiting(),
    bulk: new Waiting(),
  }
  const requests: { message: string; at: number; url: string; code: OutcomeCode }[] = []
  const sentAt = new Map<string, number[]>()

  const deliveryOf = (row: Row, lane: Lane): Delivery => ({
    id: row.id,
    attempt: row.attempt,
    attemptsBefore: 0,
    messageId: row.message,
    source: 'web',
    destination: 'crm',
    type: 'track',
    body: row.message,
    sinceFirstMs: now() - (row.firstAt ?? now()),
    lane,
    refusedBy: row.refusedBy,
  })

  const lease = (row: Row, lane: Lane): Delivery => {
    waiting[lane].delete(row)
    row.state = 'leased'
    row.attempt++
    row.firstAt ??= now()
    return deliveryOf(row, lane)
  }

  const claimOne = ({ lane, limit, isUntried }: Claim): Delivery[] => {
    const due = waiting[lane].due(now())
    const found = isUntried
      ? due
          .slice(-NEWEST)
          .reverse()
          .filter(({ attempt }) => attempt === 0)
      : due
    return found.slice(0, limit).map((row) => lease(row, lane))
  }

  const settleOne = ({ id, next, refusedBy }: Settlement) => {
    const row = rows[id]
    if (!row) throw new Error(`no delivery ${id}`)
    row.state = next.state
    row.refusedBy = refusedBy
    if (next.state === 'done') row.doneAt = now() - startedAt
    if (!('delayMs' in next)) return
    row.dueAt = now() + next.delayMs
    waiting[laneOf(row)].add(row)
  }

  const store = {
    claim: (claims: Claim[]) => Promise.resolve(claims.flatMap(claimOne)),
    due: () => {
      const lanes = LANES.filter((lane) => waiting[lane].due(now()).length > 0)
      return Promise.resolve(lanes.map((lane) => ({ destination: 'crm', lane })))
    },
    settle: (settlements: Settlement[]) => {
      settlements.forEach(settleOne)
      return Promise.resolve(0)
    },
    onSettled: () => undefined,
  }
  const nothing = () => undefined
  const events = {
    attempted: nothing,
    claimFailed: nothing,
    settleFailed: nothing,
    settleRecovered: nothing,
    settlementsRefused: nothing,
    messagesEnded: nothing,
    workersFailed: nothing,
  } satisfies DeliverEvents
  const takes = vi.spyOn(ProcessRoom.prototype, 'take')
  const expects = vi.spyOn(ProcessRoom.prototype, 'expect')
  const settler = new Settler(store, events, now)
  const dispatcher = new Dispatcher({ store, settler, events, now, random, maxUnderWay })
  const destination: Destination = {
    name: 'crm',
    sources: ['web'],
    enabled: true,
    sharedSecret: undefined,
    webhooks: endpoints.map(({ settings }) => settings),
    ...(quota !== undefined && { tenant: 'acme' }),
  }
  const room = new TenantRoom<DestinationQueue>()
  room.limit = quota ?? Infinity
  const connect = (endpoint: Endpoint) => ({
    post: (bytes: string | Buffer, _headers: unknown, done: (outcome: Outcome) => void) => {
      const body = bytes.toString()
      const behave = endpoints.find(({ settings }) => settings.url === endpoint.url)?.behave
      if (!behave) throw new Error(`no endpoint ${endpoint.url}`)
      const at = now() - startedAt
      const { code, afterMs, retryAfterMs } = behave(body, at)
      requests.push({ message: body, at, url: endpoint.url, code })
      sentAt.set(body, [...(sentAt.get(body) ?? []), at])
      setTimeout(() => {
        done(outcomeOf(code, afterMs, retryAfterMs))
      }, afterMs)
    },
    close: () => Promise.resolve(),
  })
  const queues = [
    ...destinationQueues([destination], [], true, { connect, now, roomOf: () => room }),
  ]
  dispatcher.use(queues, [])

  return {
    rows,
    requests,
    /** When the requests for a message were sent, in order. */
    sentAt: (message: string): readonly number[] => sentAt.get(message) ?? [],
    /** A call arrives. */
    arrive: (message: string, isBulk = false) => {
      const placement = dispatcher.place('crm', isBulk)
      const { state } = placement
      const lane = state === 'leased' ? 'fresh' : state
      const row: Row = {
        id: rows.length,
        message,
        state: lane,
        dueAt: now(),
        attempt: 0,
        firstAt: undefined,
        refusedBy: [],
        arrivedAt: now() - startedAt,
        doneAt: undefined,
      }
      rows.push(row)
      waiting[lane].add(row)
      dispatcher.placed(placement, state === 'leased' ? lease(row, lane) : deliveryOf(row, lane))
    },
    /** Lets the time pass. */
    pass: (ms: number) => vi.advanceTimersByTimeAsync(ms),
    close: async () => {
      const closing = dispatcher.close()
      await vi.advanceTimersByTimeAsync(10_000)
      await closing
      // What was taken of the room was given back, once.
      expect(takenBy(takes)).toMatchObject({ least: 0, left: 0 })
      expect(takenBy(expects)).toMatchObject({ least: 0, left: 0 })
      expect(queues.map(({ load, underWay }) => ({ load, underWay }))).toEqual([
        { load: 0, underWay: 0 },
      ])
      takes.mockRestore()
      expects.mockRestore()
    },
  }
}

/** What is left of what was taken by these calls, and the least that ever was. */
function takenBy({ mock }: { mock: { calls: [number][] } }) {
  let [left, least] = [0, 0]
  for (const [requests] of mock.calls) {
    left += requests
    least = Math.min(least, left)
  }
  return { left, least }
}

function outcomeOf(code: OutcomeCode, ms: number, retryAfterMs: number | undefined): Outcome {
  const verdict = code === 'delivered' ? 'delivered' : code === 'client_error' ? 'refused' : 'retry'
  return { code, verdict, status: undefined, ms, retryAfterMs, response: '', error: code }
}

function laneOf({ state }: Row): Lane {
  return state as Lane
}
