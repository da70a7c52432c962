import { isDeepStrictEqual } from 'node:util'
import type { Copy, DeliveryId } from '../model/delivery.js'
import type { LogEntry, MaintainPort, MoveRecordsPort, RecordPort, Store } from '../store/store.js'

/** Deliveries that are read, written and compared at once. More could fill the memory: each attempt can have 64 KB. */
const SLICE = 200

/** The maximum number of differences that are listed. The others are only counted. */
const MAX_TOLD = 20

/** What a migration needs from each of the two stores. */
type Movable = Pick<MaintainPort, 'count' | 'copyOut' | 'copyIn' | 'copiesOf'> &
  MoveRecordsPort &
  Pick<RecordPort, 'records' | 'recordLog'> &
  Pick<Store, 'formerServers'>

/** The progress of a migration. */
export interface MigrateProgress {
  stage: 'copy' | 'compare'
  /** Deliveries that have passed this stage. */
  done: number
  total: number
}

/** The result of a migration. All numbers but those of {@link Migrated.records} count deliveries. */
export interface Migrated {
  /** In the first store. */
  total: number
  /** Added to the second store. */
  moved: number
  /** Already in the second store, and therefore left unchanged. */
  known: number
  /** Equal in both stores. */
  same: number
  /** Further along in the second store, because it is in use. */
  ahead: number
  /** Missing or different in the second store. Anything but 0 means that the migration failed. */
  different: number
  /** The first 20 of these. */
  differences: Difference[]
  /** The servers that had shares of the first store, and may still have messages, which were not moved. Left out if there is none. */
  formerServers?: readonly string[]
  /** The settings that are kept in the store, such as sources and destinations. */
  records: MovedRecords
}

/** How many records there were, and what became of them. */
export interface MovedRecords {
  total: number
  moved: number
  /** The second store had them already, or had deleted them. They were left as they are there. */
  known: number
}

/** One delivery that the second store lacks or has different data for. */
export interface Difference {
  messageId: string
  source: string
  destination: string
  /** The field that differs; `missing` if the second store lacks the delivery. */
  what: string
}

/**
 * Copies everything that a store has to another one, and then compares the deliveries. The first store is not changed. Deliveries
 * and records that the second store already has are left unchanged. An interrupted migration can therefore be started again, and the
 * second store may be in use during the migration.
 *
 * @throws StoreError if either store fails.
 */
export async function migrateStore(
  from: Movable,
  to: Movable,
  report: (progress: MigrateProgress) => void = () => undefined,
): Promise<Migrated> {
  const total = await from.count()
  const result = { total, moved: 0, known: 0, same: 0, ahead: 0, different: 0 }
  const differences: Difference[] = []

  // The settings come first: without them, a process that uses the second store would not know the destinations.
  const records = await copyRecords(from, to)
  await copyLog(from, to)
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
  const { formerServers = [] } = from
  return { ...result, differences, records, ...(formerServers.length > 0 && { formerServers }) }
}

async function copyRecords(from: Movable, to: Movable): Promise<MovedRecords> {
  const result = { total: 0, moved: 0, known: 0 }
  let after = 0
  for (;;) {
    const { records, revision } = await from.records(after, SLICE)
    if (records.length === 0) return result
    after = records.at(-1)?.version ?? after
    const existing = records.filter(({ body }) => body !== undefined)
    const moved = (await to.copyRecordsIn(existing, revision)).filter(Boolean).length
    result.total += existing.length
    result.moved += moved
    result.known += existing.length - moved
  }
}

/** Copies the oldest entries first, so that the ids of the second store have the same order. */
async function copyLog(from: Movable, to: Movable): Promise<void> {
  const slices: LogEntry[][] = []
  let before: number | undefined
  do {
    const entries = await from.recordLog(undefined, before, SLICE)
    before = entries.at(-1)?.id
    slices.push(entries.reverse())
  } while (before !== undefined)
  for (const entries of slices.reverse()) if (entries.length > 0) await to.copyLogIn(entries)
}

/** Reads the next slice while the current one is processed, so that both stores work at the same time. */
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
    // Without this handler, a read that fails during `work` would be an unhandled rejection. The next turn throws its error.
    reading.catch(() => undefined)
    done += copies.length
    await work(copies, done)
  }
}

/** Names the field in which the two copies differ; `undefined` if they are equal. */
function differenceOf(copy: Copy, other: Copy | undefined): string | undefined {
  if (!other) return 'missing'
  const mine = comparable(copy)
  const theirs = comparable(other)
  // Each store received the message itself, because a client sent it again. These are two deliveries, not a copy.
  if (mine.receivedAt !== theirs.receivedAt) return 'ahead'
  const fields = ['type', 'user', 'body'] as const
  const field = fields.find((name) => mine[name] !== theirs[name])
  if (field) return field
  if (isDeepStrictEqual(mine, theirs)) return undefined
  const log = theirs.attempts.slice(0, mine.attempts.length)
  if (!isDeepStrictEqual(log, mine.attempts)) return 'attempts'
  return hasGoneOn(mine, theirs) ? 'ahead' : 'state'
}

/** Leaves out the id, because each store assigns its own ids, and when it was replayed if it has arrived: not each store has that. */
function comparable(copy: Copy): Copy {
  const isSettled = copy.state === 'done' || copy.state === 'skipped'
  return { ...copy, id: 0, replayedAt: isSettled ? null : copy.replayedAt }
}

function hasGoneOn(mine: Copy, theirs: Copy): boolean {
  if (theirs.attempt > mine.attempt || theirs.replayedAt !== mine.replayedAt) return true
  const wasWaiting = ['fresh', 'backlog', 'bulk', 'leased'].includes(mine.state)
  return wasWaiting && (theirs.state === 'done' || theirs.attempt >= mine.attempt)
}
