import type { DeliveryId, Findings, SearchPlace, Stats, Summary } from '../../model/delivery.js'
import { ceilingOf, serverOf } from '../server-ids.js'

/** The place of one server in a search: the id before which it goes on; 0 at its end. */
export type Places = ReadonlyMap<number, DeliveryId>

/** Between the ids of a place. The servers are in the order of their numbers, which their ids contain. */
const SEPARATOR = '.'

/**
 * Where each server goes on.
 *
 * @param before - The place of the search; `undefined` for the newest. An id alone is that of one server, as a link of a time with
 * one server has it: the others begin with their newest.
 */
export function placesOf(numbers: readonly number[], before: SearchPlace | undefined): Places {
  const given = before === undefined ? [] : String(before).split(SEPARATOR).map(Number)
  const byServer = new Map(given.map((id) => [serverOf(id - 1), id]))
  const isList = typeof before === 'string' && before.includes(SEPARATOR)
  return new Map(
    numbers.map((number) => [number, byServer.get(number) ?? (isList ? 0 : ceilingOf(number))]),
  )
}

/** The answer of one server; `undefined` if it is away. */
export interface Answer {
  number: number
  found: Findings | undefined
}

/**
 * Merges what the servers have found, the newest first. It ends where one of them has more that it has not searched yet: that may be
 * newer than what the others have. A message that was moved stands at the time of its move: it does not hold up newer ones behind it.
 */
export function merge(answers: readonly Answer[], before: Places, limit: number): Findings {
  const heads = answers.map(({ number, found }) => ({
    number,
    found,
    taken: 0,
    newest: newestFrom(found?.deliveries ?? []),
  }))
  const deliveries: Summary[] = []
  while (deliveries.length < limit) {
    const isOpen = heads.some(
      ({ found, taken }) => taken === found?.deliveries.length && found.next !== undefined,
    )
    if (isOpen) break
    const [newest] = heads
      .flatMap((head) => {
        const next = head.found?.deliveries[head.taken]
        return next ? [{ head, next, at: head.newest[head.taken] ?? 0 }] : []
      })
      .sort((a, b) => b.at - a.at || b.next.id - a.next.id)
    if (!newest) break
    newest.head.taken++
    deliveries.push(newest.next)
  }
  const places = heads.map(({ number, found, taken }) => {
    const start = before.get(number) ?? 0
    if (!found) return { id: start, isOver: true }
    if (taken === found.deliveries.length) {
      return { id: Number(found.next ?? 0), isOver: found.next === undefined }
    }
    return { id: found.deliveries[taken - 1]?.id ?? start, isOver: false }
  })
  const isOver = places.every((place) => place.isOver)
  const list = places.flatMap(({ id }) => (id > 0 ? [id] : []))
  // The separator at the end makes a list of a single place, which says that all others are at their ends.
  return { deliveries, next: isOver ? undefined : `${list.join(SEPARATOR)}${SEPARATOR}` }
}

/** For each message of a list, when the newest of it and of those behind it was received. */
function newestFrom(deliveries: readonly Summary[]): number[] {
  const newest = deliveries.map(({ receivedAt }) => receivedAt)
  for (let i = newest.length - 2; i >= 0; i--) {
    newest[i] = Math.max(newest[i] ?? 0, newest[i + 1] ?? 0)
  }
  return newest
}

/** Adds up what the servers count. */
export class Sums {
  /** The answer of each server that the sum contains. */
  readonly #added = new Map<number, readonly Stats[]>()
  #sum: Stats[] = []

  /**
   * The sum of the latest answers. It stays the same array as long as one of the servers repeats the answer that it contains: callers
   * know by that what they have counted since then. The last answer of a server that gives none now still counts.
   */
  of(answers: readonly { number: number; answer: readonly Stats[] }[]): Stats[] {
    if (answers.some(({ number, answer }) => this.#added.get(number) === answer)) return this.#sum
    for (const { number, answer } of answers) this.#added.set(number, answer)
    this.#sum = sumOf([...this.#added.values()].flat())
    return this.#sum
  }
}

/** One for each destination. */
export function sumOf(all: readonly Stats[]): Stats[] {
  const sums = new Map<string, Stats>()
  for (const one of all) {
    const sum = sums.get(one.destination)
    if (!sum) {
      sums.set(one.destination, { ...one })
      continue
    }
    sum.fresh += one.fresh
    sum.backlog += one.backlog
    sum.bulk += one.bulk
    sum.leased += one.leased
    sum.dead += one.dead
    sum.oldestMs = Math.max(sum.oldestMs, one.oldestMs)
  }
  return [...sums.values()]
}
