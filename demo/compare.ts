import type { DeliveredReport, Stats } from 'hookline'
import type { Trace } from '../destination/src/store/store.js'

/** What the application knows: the calls that it made, and the results that its callbacks got. */
export interface AppBooks {
  /** For each message id: what the call asked for, and the time of the call (ms since the epoch). */
  readonly called: Map<string, { text: string; atMs: number }>
  /** The ids whose callback got no error, once for each call of the callback. */
  readonly stored: string[]
}

/** What the client knows. */
export interface SdkBooks {
  readonly stats: Stats
  /** The reports that `onDelivered` got. */
  readonly reports: readonly DeliveredReport[]
}

/** One message to one receiver, as it is in the destination's store. */
export type StoredDelivery = Pick<Trace, 'messageId' | 'destination' | 'state' | 'body'> & {
  readonly attempts: readonly Pick<Trace['attempts'][number], 'attempt' | 'code' | 'status'>[]
}

/** What a receiver knows. */
export interface ReceiverBooks {
  /** The messages that it answered with 204 and kept, in the order of their arrival. */
  readonly received: { id: string; body: string; atMs: number }[]
  answered503: number
  wrongSignatures: number
}

/** One number, counted by several parts. It is absent where a part can't know it. */
export interface Counts {
  readonly app?: number
  readonly sdk?: number
  readonly destination?: number
  readonly receiver?: number
}

export interface Line extends Counts {
  readonly about: string
  readonly what: string
  /** Whether the numbers are right; absent if every number is right. */
  readonly isRight?: boolean
}

/** Compares the books of all parts. If no line is wrong, they agree, and nothing was lost. */
export function compare(
  app: AppBooks,
  sdk: SdkBooks,
  deliveries: readonly StoredDelivery[],
  receivers: Readonly<Record<string, ReceiverBooks>>,
): Line[] {
  const lines = Object.entries(receivers).flatMap(([name, books]) => {
    const toIt = deliveries.filter(({ destination }) => destination === name)
    return compareReceiver(`from the destination to ${name}`, app, toIt, books)
  })
  return [...compareCalls(app, sdk, deliveries), ...lines]
}

function compareCalls(
  { called, stored }: AppBooks,
  { stats, reports }: SdkBooks,
  deliveries: readonly StoredDelivery[],
): Line[] {
  const about = 'from the app to the destination'
  const inStore = new Set(deliveries.map(({ messageId }) => messageId))
  const reported = sum(reports.map(({ messages }) => messages))
  const retried = reports.filter(({ attempts }) => attempts > 1).length
  return [
    same(about, 'calls', { app: called.size, sdk: stats.accepted }),
    same(about, 'stored', { app: stored.length, sdk: reported, destination: inStore.size }),
    none(about, 'lost', {
      app: missing(called, new Set(stored)),
      sdk: stats.rejected + stats.dropped,
      destination: missing(called, inStore),
    }),
    { about, what: 'batches', sdk: reports.length },
    { about, what: 'batches sent more than once', sdk: retried },
  ]
}

function compareReceiver(
  about: string,
  { called }: AppBooks,
  deliveries: readonly StoredDelivery[],
  { received, answered503, wrongSignatures }: ReceiverBooks,
): Line[] {
  const byId = new Map(deliveries.map((delivery) => [delivery.messageId, delivery]))
  const done = deliveries.filter(({ state }) => state === 'done').map(({ messageId }) => messageId)
  const copies = new Map<string, number>()
  for (const { id } of received) copies.set(id, (copies.get(id) ?? 0) + 1)
  const changed = received.filter(
    ({ id, body }) =>
      body !== byId.get(id)?.body || askedFor(JSON.parse(body) as Fields) !== called.get(id)?.text,
  )
  const unexplained = [...copies].filter(([id, count]) => count - 1 > countUnanswered(byId.get(id)))
  const attempts = deliveries.flatMap((delivery) => delivery.attempts)
  const failed503 = attempts.filter(({ status }) => status === 503).length
  return [
    same(about, 'messages', { destination: done.length, receiver: copies.size }),
    none(about, 'lost', {
      destination: missing(called, new Set(done)),
      receiver: missing(called, copies),
    }),
    none(about, 'not what the call asked for', { receiver: changed.length }),
    none(about, 'wrong signatures', { receiver: wrongSignatures }),
    {
      about,
      what: 'cut off in flight / come twice',
      destination: sum(deliveries.map(countUnanswered)),
      receiver: received.length - copies.size,
      isRight: unexplained.length === 0,
    },
    {
      about,
      what: 'attempts answered 503',
      destination: failed503,
      receiver: answered503,
      isRight: failed503 <= answered503, // closing the port may cut off the last answers
    },
    {
      about,
      what: 'attempts that met a closed port',
      destination: attempts.filter(({ code }) => code === 'connection_refused').length,
    },
  ]
}

/**
 * The content of a call as text, so that a call can be compared with the body that a receiver got for it. It leaves out
 * what only the body has: the time, and the client's part of the context.
 */
export function askedFor(fields: Fields): string {
  const context = { ...(fields['context'] as Fields | undefined), library: undefined }
  return JSON.stringify(ASKED.map((field) => (field === 'context' ? context : fields[field])))
}

type Fields = Readonly<Record<string, unknown>>

const ASKED = [
  ...['type', 'userId', 'anonymousId', 'event', 'groupId', 'category', 'name'],
  ...['properties', 'traits', 'context'],
]

/**
 * How many attempts may have arrived although the destination got no answer. The attempts are numbered, so a number
 * that is missing in the store belongs to an attempt that was running when the destination was killed.
 */
function countUnanswered(delivery: StoredDelivery | undefined): number {
  const { attempts = [] } = delivery ?? {}
  const logged = new Set(attempts.map(({ attempt }) => attempt))
  const unanswered = attempts.filter(({ code }) => UNANSWERED.has(code))
  return Math.max(0, ...logged) - logged.size + unanswered.length
}

const UNANSWERED: ReadonlySet<string> = new Set([
  'timeout',
  'connection_reset',
  'connection_failed',
])

/** A line whose numbers must be equal. */
function same(about: string, what: string, counts: Counts): Line {
  return { about, what, ...counts, isRight: new Set(Object.values(counts)).size === 1 }
}

/** A line whose numbers must be 0. */
function none(about: string, what: string, counts: Counts): Line {
  const isRight = Object.values(counts).every((count) => count === 0)
  return { about, what, ...counts, isRight }
}

function missing(called: AppBooks['called'], found: { has(id: string): boolean }): number {
  return [...called.keys()].filter((id) => !found.has(id)).length
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0)
}
