/** The time between two heartbeats of a worker, in ms. */
export const HEARTBEAT_MS = 5_000

/** A worker without a heartbeat for this long, in ms, is no longer counted. One late or lost heartbeat does no harm. */
export const WORKER_TIMEOUT_MS = 15_000

/**
 * The worker processes that deliver from one store. They share each endpoint: every worker takes its part of the
 * endpoint's `concurrency`, and only one worker at a time probes an endpoint that is down.
 */
export interface Workers {
  /**
   * Tells the other workers that this one lives. Call it every {@link HEARTBEAT_MS}; the first call joins.
   *
   * The other workers learn of a new one at their next heartbeat. Until then, all workers together may exceed a
   * concurrency of which each takes 1/n and at least 1: two that join at once take 1 + 1/2 of it, three 1 + 1/2 + 1/3. A
   * worker that dies without leaving is counted for another {@link WORKER_TIMEOUT_MS}. After the store was away for longer
   * than that, each worker counts only those that it has seen again.
   *
   * @returns how many workers there are, including this one.
   * @throws StoreError if the store can't write.
   */
  heartbeat(): Promise<number>

  /**
   * Asks for the permissions to probe endpoints that {@link noteDown} has recorded. For each endpoint, one of the workers that ask gets
   * it: for `firstMs` the first time, then for twice as long each time, up to `maxMs`. If nobody has asked for `maxMs` after a
   * permission ended, the next one is the first again: it belongs to another outage.
   *
   * @param endpoints - Each of them once.
   * @returns for each endpoint how long the permission holds, in ms; 0 if nobody may probe it now, or another worker has the permission;
   * `undefined` if it is not recorded as down any more, because of {@link endProbes}.
   * @throws StoreError if the store can't write.
   */
  tryProbes(
    endpoints: readonly string[],
    firstMs: number,
    maxMs: number,
  ): Promise<(number | undefined)[]>

  /**
   * Records that endpoints are down, and for how long nobody may probe them. If another worker has recorded one of them too, or has the
   * permission to probe it, the longer time counts. The next permission is as long as it would be without this call.
   *
   * @param down - Each endpoint once.
   * @param firstMs - As in {@link tryProbes}, as is `maxMs`.
   * @throws StoreError if the store can't write.
   */
  noteDown(down: readonly DownEndpoint[], firstMs: number, maxMs: number): Promise<void>

  /**
   * The endpoints that workers have found down, for a worker that does not know them. One that nobody has asked to probe for `maxMs`,
   * since the last permission ended, is left out: it belongs to a former outage.
   *
   * @throws StoreError if the store does not answer.
   */
  findDown(maxMs: number): Promise<DownEndpoint[]>

  /**
   * Records that endpoints are healthy again. The other workers learn it when they ask to probe them, or by {@link findDown}.
   *
   * @throws StoreError if the store can't write.
   */
  endProbes(endpoints: readonly string[]): Promise<void>
}

/** An endpoint that is down, as other workers know it. */
export interface DownEndpoint {
  endpoint: string
  /** How long nobody may probe it from now on, in ms; 0 if somebody may. */
  forMs: number
}
