import { isDeepStrictEqual } from 'node:util'
import type { Copy, DeliveryId } from '../model/delivery.js'
import type { MaintainPort } from '../store/store.js'

/** So many are read, written and compared at once: a log can have 64 KB for each attempt. */
const SLICE = 200

/** Differences that are told one by one. */
const MAX_TOLD = 20

/** What a store has to have to be moved from, or to. */
type Movable = Pick<MaintainPort, 'count' | 'copyOut' | 'copyIn' | 'copiesOf'>

/** How far it is. */
export interface MigrateProgress {
  stage: 'copy' | 'compare'
  /** Deliveries that are through this stage. */
  done: number
  total: number
}

/** What came of it. */
export interface Migrated {
  /** Deliveries that the first store has. */
  total: number
  /** Those that were added to the second one, and those that it had already. */
  moved: number
  known: number
  /** Those of which the second store has all that the first one has. */
  same: number
  /** Those that have gone on in the second store since they were moved. */
  ahead: number
  /** What the second store lacks, or has otherwise: none, or something is wrong. */
  different: number
  /** The first of these. */
  differences: Difference[]
}

/** One delivery that is not as it should be. */
export interface Difference {
  messageId: string
  source: string
  destination: string
  /** What of it is different; `missing` if there is none. */
  what: string
}

/**
 * Moves everything from one store to another, and compares both then. Nothing is taken from the first one. What the
 * second one has already is left as it is, so that a move that was cut off is made again from the start; and it may be in
 * use meanwhile.
 *
 * @throws StoreError of either store.
 */
export async function migrateStore(
  from: Movable,
  to: Movable,
  report: (progress: MigrateProgress) => void = () => undefined,
): Promise<Migrated> {
  const total = await from.count()
  const result = { total, moved: 0, known: 0, same: 0, ahead: 0, different: 0 }
  const differences: Difference[] = []

  await eachSlice(from, async (copies, done) => {
    const added = await to.copyIn(copies)
    const moved = added.filter(Boolean).length
    result.moved += moved
    result.known += copies.length - moved
    report({ stage: 'copy', done, total })
  })
  await eachSlice(from, async (copies, done) => {
    const others = await to.copiesOf(copies)
    for (const [i, copy] of copies.entries()) {
      const what = differenceOf(copy, others[i])
      if (what === undefined || what === 'ahead') {
        result[what ?? 'same']++
        continue
      }
      result.different++
      const { messageId, source, destination } = copy
      if (differences.length < MAX_TOLD) differences.push({ messageId, source, destination, what })
    }
    report({ stage: 'compare', done, total })
  })
  return { ...result, differences }
}

/** Reads a slice ahead: both stores work at once. */
async function eachSlice(
  from: Movable,
  work: (copies: Copy[], done: number) => Promise<void>,
): Promise<void> {
  let done = 0
  let reading = from.copyOut(0, SLICE)
  for (;;) {
    const copies = await reading
    const last: DeliveryId | undefined = copies.at(-1)?.id
    if (last === undefined) return
    reading = from.copyOut(last, SLICE)
    // What fails meanwhile is told by the next turn, if this one does not fail itself.
    reading.catch(() => undefined)
    done += copies.length
    await work(copies, done)
  }
}

/** Compares what a store has with what it was given; `undefined` if that is the same. */
function differenceOf(copy: Copy, other: Copy | undefined): string | undefined {
  if (!other) return 'missing'
  const mine = comparable(copy)
  const theirs = comparable(other)
  // It came to both of them: a client sent it again, and each has its own.
  if (mine.receivedAt !== theirs.receivedAt) return 'ahead'
  const fields = ['type', 'user', 'body'] as const
  const field = fields.find((name) => mine[name] !== theirs[name])
  if (field) return field
  if (isDeepStrictEqual(mine, theirs)) return undefined
  const log = theirs.attempts.slice(0, mine.attempts.length)
  if (!isDeepStrictEqual(log, mine.attempts)) return 'attempts'
  return hasGoneOn(mine, theirs) ? 'ahead' : 'state'
}

/** Ids are each store's own. */
function comparable(copy: Copy): Copy {
  return { ...copy, id: 0 }
}

function hasGoneOn(mine: Copy, theirs: Copy): boolean {
  if (theirs.attempt > mine.attempt || theirs.replayedAt !== mine.replayedAt) return true
  const wasWaiting = ['fresh', 'backlog', 'leased'].includes(mine.state)
  return wasWaiting && (theirs.state === 'done' || theirs.attempt >= mine.attempt)
}
