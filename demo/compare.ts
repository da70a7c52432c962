import type { DeliveredReport, Stats } from 'hookline'

/** The application's end: what was called, and what the client said became of it. */
export interface AppBooks {
  /** The id of each call's message, in the order of the calls. */
  readonly called: readonly string[]
  /** The ids whose callback was called without an error, once for each time. */
  readonly delivered: readonly string[]
  readonly stats: Stats
  /** What `onDelivered` got. */
  readonly reports: readonly DeliveredReport[]
}

/** The collector's end. */
export interface CollectorBooks {
  /** The bodies that it answered 200, as they came. */
  readonly accepted: { ids: string[]; bytes: number; retries: number }[]
  /** How many requests it answered 500. */
  refused: number
}

/** One thing that an end counts, or both. */
export interface Line {
  readonly about: 'messages' | 'requests' | 'batches'
  readonly what: string
  /** What each end says; absent where it can't know. */
  readonly app?: number | undefined
  readonly collector?: number | undefined
  /** Whether the numbers are what they must be; absent where any will do. */
  readonly isRight?: boolean
}

/** Lays the two books side by side: both ends agree, and nothing was lost, if no line is wrong. */
export function compare(app: AppBooks, collector: CollectorBooks): Line[] {
  return [
    ...compareMessages(app, collector),
    ...compareRequests(app, collector),
    ...compareBatches(app, collector),
  ]
}

function compareMessages({ called, delivered, stats }: AppBooks, books: CollectorBooks): Line[] {
  const about = 'messages'
  const received = books.accepted.flatMap(({ ids }) => ids)
  const deliveredIds = new Set(delivered)
  const receivedIds = new Set(received)
  const without = (ids: Set<string>) => called.filter((id) => !ids.has(id)).length
  return [
    {
      about,
      what: 'accepted by the SDK',
      app: stats.accepted,
      isRight: stats.accepted === called.length,
    },
    same(about, 'delivered (stats) / received', stats.delivered, received.length),
    same(about, 'delivered (callbacks) / unique ids', deliveredIds.size, receivedIds.size),
    none(about, 'lost', without(deliveredIds), without(receivedIds)),
    none(
      about,
      'delivered twice',
      delivered.length - deliveredIds.size,
      received.length - receivedIds.size,
    ),
    none(about, 'out of order', undefined, countOutOfOrder(called, received)),
  ]
}

function compareRequests({ reports }: AppBooks, { accepted, refused }: CollectorBooks): Line[] {
  const about = 'requests'
  const attempts = sum(reports.map((report) => report.attempts))
  const answered = accepted.length + refused
  return [
    { about, what: 'sent / answered', app: attempts, collector: answered },
    { about, what: 'answered 500', collector: refused },
    {
      about,
      what: 'met a closed port',
      app: attempts - answered,
      isRight: attempts >= answered,
    },
  ]
}

function compareBatches({ reports }: AppBooks, { accepted }: CollectorBooks): Line[] {
  const about = 'batches'
  const retries = reports.map((report) => report.attempts - 1)
  const retriesSeen = accepted.map((body) => body.retries)
  const sizes = reports.map((report) => report.messages)
  const sizesSeen = accepted.map(({ ids }) => ids.length)
  const bytes = sum(reports.map((report) => report.bytes))
  const bytesSeen = sum(accepted.map((body) => body.bytes))
  return [
    same(about, 'delivered / answered 200', reports.length, accepted.length),
    same(about, 'retried before that', countPositive(retries), countPositive(retriesSeen)),
    same(about, 'retries of those', sum(retries), sum(retriesSeen)),
    same(about, 'messages in the smallest', Math.min(...sizes), Math.min(...sizesSeen)),
    same(about, 'messages in the median', median(sizes), median(sizesSeen)),
    same(about, 'messages in the largest', Math.max(...sizes), Math.max(...sizesSeen)),
    same(about, 'bytes in all', bytes, bytesSeen),
  ]
}

/** A line whose numbers must be equal. */
function same(about: Line['about'], what: string, app: number, collector: number): Line {
  return { about, what, app, collector, isRight: app === collector }
}

/** A line whose numbers must be 0. */
function none(
  about: Line['about'],
  what: string,
  app: number | undefined,
  collector: number,
): Line {
  return { about, what, app, collector, isRight: !app && collector === 0 }
}

/** How many messages came after one that was called later. */
function countOutOfOrder(called: readonly string[], received: readonly string[]): number {
  const positions = new Map(called.map((id, index) => [id, index]))
  let latest = -1
  let count = 0
  for (const id of received) {
    const position = positions.get(id) ?? -1
    if (position < latest) count++
    else latest = position
  }
  return count
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0)
}

function countPositive(numbers: readonly number[]): number {
  return numbers.filter((number) => number > 0).length
}

function median(numbers: readonly number[]): number {
  return percentile(numbers, 0.5)
}

/** The number that the given part of them does not exceed; NaN if there is none. */
export function percentile(numbers: readonly number[], part: number): number {
  const sorted = numbers.toSorted((a, b) => a - b)
  return sorted[Math.max(0, Math.ceil(part * sorted.length) - 1)] ?? NaN
}
