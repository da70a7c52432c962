/** A call that waits for its round. A round carries out many calls at once. */
export interface PendingCall<Item, Result> {
  items: Item[]
  resolve: (result: Result) => void
  reject: (error: unknown) => void
}

/** The items of all calls, in the order of the calls. */
export function itemsOf<Item>(
  calls: readonly PendingCall<Item, never>[] | readonly PendingCall<Item, unknown>[],
): Item[] {
  return calls.flatMap(({ items }) => items)
}

/**
 * Gives each call its part of a round's results.
 *
 * @param results - One for each item, in the order of {@link itemsOf}.
 */
export function resolveCalls<Item, One, Result>(
  calls: readonly PendingCall<Item, Result>[],
  results: readonly One[],
  toResult: (part: One[]) => Result,
): void {
  let from = 0
  for (const { items, resolve } of calls) {
    resolve(toResult(results.slice(from, (from += items.length))))
  }
}

/** Fails all calls of a round. */
export function rejectCalls(
  calls: readonly Pick<PendingCall<never, never>, 'reject'>[],
  error: unknown,
): void {
  for (const { reject } of calls) reject(error)
}
