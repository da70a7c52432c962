import type { ReadPort } from '../store/store.js'
import { StoreError } from '../store/store-error.js'

/** What a watch tells. */
export interface StoreWatchEvents {
  /** The file of the store was removed or replaced. Told once. */
  storeRemoved(error: unknown): void
  /** The file of the store is back. */
  storeFound(): void
}

/** How often the store is asked, in ms. */
const EVERY_MS = 5_000

/**
 * Asks a store whether its file is still in its place, so that the operator hears of it before a call is refused.
 *
 * @param everyMs - How long it waits after each answer, in ms.
 */
export function watchStore(
  store: Pick<ReadPort, 'ping'>,
  events: StoreWatchEvents,
  everyMs = EVERY_MS,
): { stop(): void } {
  let isRemoved = false
  let isStopped = false
  let timer: NodeJS.Timeout | undefined
  const look = async () => {
    const error = await store.ping().catch((error: unknown) => error)
    if (isStopped) return
    const was = isRemoved
    // Any other error says nothing about the file, and is reported where it is met.
    if (error === undefined) isRemoved = false
    if (error instanceof StoreError && error.code === 'removed') isRemoved = true
    if (isRemoved && !was) events.storeRemoved(error)
    if (was && !isRemoved) events.storeFound()
    start()
  }
  const start = () => {
    timer = setTimeout(() => void look(), everyMs).unref()
  }
  start()
  return {
    stop: () => {
      isStopped = true
      clearTimeout(timer)
    },
  }
}
