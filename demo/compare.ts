import type { DeliveredReport, Stats } from 'hookline'
import type { Trace } from '../destination/src/model/delivery.js'

/** The application's end: what was called, and what its callbacks were told. */
export interface AppBooks {
  /** By the message's id, what each call asked for, and when it was made (ms since the epoch). */
  readonly called: Map<string, { text: string; atMs: number }>
  /** The ids whose callback was called without an error, once for each time. */
  readonly stored: string[]
}

/** The client's end. */
export interface SdkBooks {
  readonly stats: Stats
  /** What `onDelivered` got. */
  readonly reports: readonly DeliveredReport[]
}

/** One message on its way to one receiver, as the destination's store has it. */
export type StoredDelivery = Pick<Trace, 'messageId' | 'destination' | 'state' | 'body'> & {
  readonly attempts: readonly Pick<Trace['attempts'][number], 'attempt' | 'code' | 'status'>[]
}

/** A receiver's end. */
export interface ReceiverBooks {
  /** What it kept of what it answered 204, as it came. */
  readonly received: { id: string; body: string; atMs: number }[]
  answered503: number
  wrongSignatures: number
}

/** One thing that several ends count: absent where one can't know. */
export interface Counts {
  readonly app?: number
  readonly sdk?: number
  readonly destination?: number
  readonly receiver?: number
}

export interface Line extends Counts {
  readonly about: string
  readonly what: string
  /** Whether the numbers are what they must be; absent where any will do. */
  readonly isRight?: boolean
}

/** Lays the books of all ends side by side: they agree, and nothing was lost, if no line is wrong. */
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
      isRight: failed503 <= answered503, // the last answers may be cut off as the port is closed
    },
    {
      about,
      what: 'attempts that met a closed port',
      destination: attempts.filter(({ code }) => code === 'connection_refused').length,
    },
  ]
}

/**
 * What a call asks for, as text: of a call's fields, or of the body that a receiver got for it, which has the
 * client's part of the context and the time beside them.
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
 * How many attempts may have arrived although the destination got no answer. Each has a number: one without a
 * line in the log was under way at the kill.
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
