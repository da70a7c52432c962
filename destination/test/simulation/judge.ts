// Knows what may happen, and sees everything that does.
import type { Delivery, NewDelivery, Settlement, State } from '../../src/model/delivery.js'
import type { EndedMessage } from '../../src/deliver/settler.js'
import type { Destination, Endpoint } from '../../src/settings/settings.js'
import { DELAYS_MS, LONG_DELAY_MS, MIN_ATTEMPTS, WINDOW_MS } from '../../src/deliver/schedule.js'
import { LEASE_MS } from '../../src/store/store.js'
import type { Owner, VirtualClock } from './clock.js'
import { MAX_RETRY_AFTER_MS, type Reply, type Server } from './network.js'

/** What the judge knows of a worker. */
export interface WorkerView extends Owner {
  name: string
  /** The destinations of its present settings that are enabled, by name. */
  destinations: ReadonlyMap<string, Destination>
  /** When it was suspended last. */
  suspendedAt: number
}

/** One request, as an endpoint sees it. */
export interface Post {
  message: Tracked
  attempt: number
  destination: string
  url: string
  worker: WorkerView
  at: number
  /** Whether the endpoint knows one of the secrets that the worker has. */
  hasKnownSecret: boolean
  /** `undefined` until the answer has arrived. */
  status: number | 'none' | undefined
  retryAfterMs: number
}

/** What happened at a time: a sentence, in which each % stands for one of the values. It is written only if somebody asks. */
type Told = readonly [at: number, what: string, ...values: (string | number)[]]

/** One message for one destination. */
export interface Tracked {
  id: number
  name: string
  user: string
  destination: string
  isBulk: boolean
  isPoison: boolean
  state: State | 'gone'
  /** When its user was deleted, and how long after that a request of it may still begin, in ms. */
  deleted: { at: number; graceMs: number } | undefined
  receivedAt: number
  /** When it may be claimed. */
  dueAt: number
  attempt: number
  claimedAt: number
  /** Who has its lease and knows it. */
  holder: WorkerView | undefined
  /** When its retry window began. */
  firstAt: number | undefined
  /** Attempts in its window that sent something and were settled. */
  counted: number
  refusedBy: readonly string[]
  posts: Post[]
  /** How and in which attempt it ended, until a worker is told that. */
  ended: { state: State; attempt: number } | undefined
  /** When claims that sent nothing were settled, in the last minute. */
  unsentAt: number[]
  story: Told[]
}

/** A promise that was broken. */
export interface Breach {
  at: number
  promise: string
  fault: string
  message: Tracked | undefined
}

/** What was sent to one endpoint of one destination. */
interface Line {
  server: Server
  inFlight: Set<Post>
  /** In the last minute. */
  recent: Post[]
  /** When its limits were changed last, and the requests that were under way then. */
  changedAt: number
  fromBefore: ReadonlySet<Post>
  /** The rate limits of before, and until when each was used, in the last second. */
  ratesBefore: { until: number; rateLimit: number }[]
  /** Since when it is down and nothing else happened, and what was sent since. */
  downSince: number
  downPosts: number
  /** Since when something is due that it could take, by bound; `undefined` if nothing is. */
  idleSince: number | undefined
  /** Since when bulk work goes before others. */
  overtakenSince: number | undefined
}

export interface JudgeParts {
  clock: VirtualClock
  workers: () => readonly WorkerView[]
  /** Whether the store answers. */
  isStoreUp: () => boolean
  server: (url: string) => Server
  /** All destinations in the newest settings. */
  destinations: () => readonly Destination[]
}

const SAMPLE_MS = 5_000

/**
 * After an outage: a probe follows within 36 s (30 s and the jitter), another worker may hold the permission to probe for
 * 30 s, and the requests at once double from 2 up to the limit.
 */
const IDLE_MS = 100_000
/** Where nothing has failed for {@link STEADY_MS}. */
const STEADY_IDLE_MS = 15_000
const STEADY_MS = 600_000
/** Where messages fail for ever. */
const POISON_IDLE_MS = 900_000
/** Where the endpoint answers 429. */
const THROTTLED_IDLE_MS = 60_000
/** How long bulk work may go before others. */
const OVERTAKEN_MS = 20_000
/** A worker is counted until 15 s after its last heartbeat, and the others learn of a change within 5 s. */
const JOINING_MS = 30_000
/** A worker that is closed answers a supervisor in time. */
const CLOSE_MS = 9_000
/** Claims of one message that send nothing, in a minute. */
const MOST_UNSENT = 65
/** An endpoint that is down gets its limit twice, so many requests until its breaker opens, and a probe in this time. */
const MOST_BEFORE = 260
const PROBE_EVERY_MS = 15_000

export class Judge {
  readonly breaches: Breach[] = []
  /** What happened to everybody. */
  readonly events: Told[] = []
  readonly messages: Tracked[] = []
  readonly #byId = new Map<number, Tracked>()
  readonly #byName = new Map<string, Tracked>()
  readonly #unsettled = new Map<string, Set<Tracked>>()
  readonly #lines = new Map<string, Line>()
  /** Since when no worker came, went or stood still, and the store answers. */
  #calmSince = 0
  /** When the number of workers changed last. */
  #membersAt = 0
  #storeFailedAt = -Infinity
  hasPoison = false
  requests = 0
  /** The longest times that were seen, by bound. */
  readonly longest: Record<string, number> = {}
  repeats = 0

  constructor(readonly parts: JudgeParts) {
    const sample = () => {
      this.#sample()
      parts.clock.after(SAMPLE_MS, sample)
    }
    parts.clock.after(SAMPLE_MS, sample)
  }

  get now(): number {
    return this.parts.clock.now
  }

  /** How many messages are not settled. */
  get unsettled(): number {
    let count = 0
    for (const own of this.#unsettled.values()) count += own.size
    return count
  }

  /** Something happened that may delay everything. */
  disturbed(what: string, isMembers = false): void {
    this.events.push([this.now, what])
    this.#calmSince = this.now
    if (isMembers) this.#membersAt = this.now
  }

  /** Something happened that delays nothing. */
  note(what: string): void {
    this.events.push([this.now, what])
  }

  storeFailed(): void {
    this.#storeFailedAt = this.#calmSince = this.now
  }

  put(
    deliveries: readonly NewDelivery[],
    ids: readonly (number | undefined)[],
    worker: WorkerView,
    isAnswered: boolean,
  ): void {
    for (const [i, delivery] of deliveries.entries()) {
      const id = ids[i]
      const known = this.#byName.get(`${delivery.destination} ${delivery.body}`)
      if (id === undefined) {
        if (!known)
          this.breach('books', `the store knows ${delivery.body}, which was not put`, known)
        continue
      }
      if (known && known.state !== 'gone') {
        this.breach('books', 'a message was stored twice', known)
        continue
      }
      this.#track(id, delivery, worker, isAnswered)
    }
  }

  #track(
    id: number,
    { body, user, destination, state }: NewDelivery,
    worker: WorkerView,
    isAnswered: boolean,
  ): void {
    const isLeased = state === 'leased'
    const message: Tracked = {
      ...{ id, name: body, user, destination, state, deleted: undefined, receivedAt: this.now },
      isBulk: body.includes('bulk'),
      isPoison: body.includes('poison'),
      dueAt: isLeased ? this.now + LEASE_MS : this.now,
      attempt: isLeased ? 1 : 0,
      claimedAt: this.now,
      holder: isLeased && isAnswered ? worker : undefined,
      firstAt: isLeased ? this.now : undefined,
      counted: 0,
      refusedBy: [],
      posts: [],
      ended: undefined,
      unsentAt: [],
      story: [],
    }
    this.messages.push(message)
    this.#byId.set(id, message)
    this.#byName.set(`${destination} ${body}`, message)
    if (state !== 'skipped') this.#waitingOf(destination).add(message)
    this.#tell(message, 'put % by %', state, worker.name)
  }

  claimed(deliveries: readonly Delivery[], worker: WorkerView, isAnswered: boolean): void {
    for (const delivery of deliveries) this.#claimed(delivery, worker, isAnswered)
  }

  #claimed(delivery: Delivery, worker: WorkerView, isAnswered: boolean): void {
    const message = this.#byId.get(delivery.id)
    if (!message) {
      this.breach('books', `a claim gave delivery ${delivery.id}, which was not put`, undefined)
      return
    }
    const { attempt, lane, sinceFirstMs, attemptsBefore } = delivery
    const answer = isAnswered ? '' : ', but the answer is lost'
    this.#tell(message, 'claimed by % from %, attempt %%', worker.name, lane, attempt, answer)
    if (message.state === 'leased') this.#lapsed(message)
    else if (!['fresh', 'backlog', 'bulk'].includes(message.state)) {
      this.breach('fencing', `it was claimed, although it is ${message.state}`, message)
    }
    if (message.dueAt > this.now + 1) {
      this.breach(
        'due times',
        `it was claimed ${Math.round(message.dueAt - this.now)} ms too early`,
        message,
      )
    }
    if (attempt <= message.attempt)
      this.breach('fencing', `attempt ${attempt} was given out twice`, message)
    message.claimedAt = this.now
    message.firstAt ??= this.now
    if (Math.abs(this.now - message.firstAt - sinceFirstMs) > 5) {
      this.breach('window', `it is said to be ${sinceFirstMs} ms old`, message)
    }
    if (attempt - attemptsBefore - 1 > message.counted) {
      this.breach(
        'attempts',
        `${attempt - attemptsBefore - 1} attempts count, but only ${message.counted} were made`,
        message,
      )
    }
    message.state = 'leased'
    message.attempt = attempt
    message.claimedAt = this.now
    message.holder = isAnswered ? worker : undefined
    message.dueAt = this.now + LEASE_MS
  }

  /** A lease has run out: something must explain why nobody settled it. */
  #lapsed(message: Tracked): void {
    const { holder, claimedAt, dueAt } = message
    const isExcused =
      !holder ||
      holder.isDead ||
      holder.suspendedAt >= claimedAt ||
      holder.suspendedUntil > claimedAt ||
      this.#storeFailedAt > dueAt - 5_000
    if (!isExcused) {
      this.breach(
        'leases',
        `${holder.name} lives and did not settle attempt ${message.attempt} in ${LEASE_MS} ms`,
        message,
      )
    }
  }

  /** @param accepted - By the store, each of them. */
  settled(
    settlements: readonly Settlement[],
    accepted: readonly boolean[],
    worker: WorkerView,
  ): void {
    for (const [i, settlement] of settlements.entries()) {
      const message = this.#byId.get(settlement.id)
      if (!message) {
        this.breach('books', `delivery ${settlement.id} was settled, which was not put`, undefined)
        continue
      }
      const { next, attempt } = settlement
      const inMs = 'delayMs' in next ? Math.round(next.delayMs) : 0
      const answer = accepted[i] ? 'accepted' : 'refused'
      this.#tell(
        message,
        'attempt % settled by %: % in % ms, %',
        attempt,
        worker.name,
        next.state,
        inMs,
        answer,
      )
      if (accepted[i]) this.#settled(message, settlement, worker)
    }
  }

  /** A worker is told what has become of messages. */
  ended(messages: readonly EndedMessage[]): void {
    for (const { delivery, next } of messages) {
      const message = this.#byId.get(delivery.id)
      const { state, attempt } = message?.ended ?? {}
      if (message) message.ended = undefined
      if (state === next.state && attempt === delivery.attempt) continue
      this.breach('truth', `attempt ${delivery.attempt} did not make it ${next.state}`, message)
    }
  }

  #settled(message: Tracked, settlement: Settlement, worker: WorkerView): void {
    const { next, attempt, refusedBy, isUnsent } = settlement
    if (message.state !== 'leased' || attempt !== message.attempt) {
      this.breach(
        'fencing',
        `a settlement of attempt ${attempt} counts, but it is ${message.state} in attempt ${message.attempt}`,
        message,
      )
    }
    const posts = message.posts.filter((post) => post.attempt === attempt)
    // The window has not begun if the first claim sent nothing.
    if (isUnsent && message.firstAt === message.claimedAt) message.firstAt = undefined
    if (isUnsent && posts.length > 0)
      this.breach('truth', 'an attempt that sent something does not count', message)
    if (posts.length > 0) message.counted++
    for (const url of refusedBy) {
      if (
        !message.refusedBy.includes(url) &&
        !posts.some((post) => post.url === url && isRefusal(post))
      ) {
        this.breach('refusals', `${url} did not refuse it`, message)
      }
    }
    message.refusedBy = refusedBy
    message.holder = undefined
    message.state = next.state
    message.ended = { state: next.state, attempt }
    if (next.state === 'done') this.#done(message, posts)
    else if (next.state === 'dead') this.#dead(message, worker)
    else this.#again(message, posts, next.delayMs, worker)
  }

  #done(message: Tracked, posts: readonly Post[]): void {
    if (!posts.some(({ status }) => status === 200)) {
      this.breach('truth', 'it is delivered, but no endpoint took it', message)
    }
    this.#waitingOf(message.destination).delete(message)
  }

  #dead(message: Tracked, worker: WorkerView): void {
    this.#waitingOf(message.destination).delete(message)
    const urls = worker.destinations.get(message.destination)?.webhooks.map(({ url }) => url) ?? []
    const isRefused = urls.every((url) =>
      message.posts.some((post) => post.url === url && isRefusal(post)),
    )
    if (isRefused) return
    const sinceMs = this.now - (message.firstAt ?? this.now)
    if (sinceMs < WINDOW_MS - 2_000) {
      this.breach(
        'window',
        `it is dead after ${Math.round(sinceMs / 60_000)} minutes, and not every endpoint refused it`,
        message,
      )
    } else if (message.counted < MIN_ATTEMPTS) {
      this.breach('attempts', `it is dead after ${message.counted} attempts`, message)
    }
  }

  #again(message: Tracked, posts: readonly Post[], delayMs: number, worker: WorkerView): void {
    message.dueAt = this.now + Math.round(delayMs)
    const sinceMs = this.now - (message.firstAt ?? this.now)
    if (posts.length === 0) {
      message.unsentAt = [...message.unsentAt.filter((at) => at > this.now - 60_000), this.now]
      if (message.unsentAt.length > MOST_UNSENT) {
        this.breach('rest', `${message.unsentAt.length} claims in a minute sent nothing`, message)
      }
      return
    }
    if (sinceMs > WINDOW_MS + 1_000 && message.counted >= MIN_ATTEMPTS) {
      this.breach(
        'window',
        `it has another attempt ${Math.round(sinceMs / 60_000)} minutes after the first`,
        message,
      )
    }
    const urls = worker.destinations.get(message.destination)?.webhooks.map(({ url }) => url) ?? []
    const failed = posts.filter(({ url }) => urls.includes(url) && !message.refusedBy.includes(url))
    if (failed.length === 0) return
    // The shortest wait decides. Those that got no request may have asked for less.
    const asked = failed.map((post) => post.retryAfterMs)
    const planned = (DELAYS_MS[message.counted - 1] ?? LONG_DELAY_MS) * 1.2
    const mostMs = Math.max(planned, Math.min(...asked)) + 1
    if (delayMs > mostMs) {
      this.breach(
        'due times',
        `its next attempt is in ${Math.round(delayMs)} ms, and ${Math.round(mostMs)} ms were enough`,
        message,
      )
    }
  }

  replayed(ids: readonly number[], lane: 'backlog' | 'bulk'): void {
    for (const id of ids) {
      const message = this.#byId.get(id)
      if (!message) continue
      this.#tell(message, 'replayed to %', lane)
      if (message.state !== 'dead')
        this.breach('replay', `it was replayed, although it is ${message.state}`, message)
      Object.assign(message, {
        ...{ state: lane, dueAt: this.now, firstAt: undefined, counted: 0, refusedBy: [] },
        ...{ posts: [], receivedAt: this.now, isBulk: lane === 'bulk' },
      })
      this.#waitingOf(message.destination).add(message)
    }
  }

  /** @param graceMs - How long a request of the user's messages may still begin. */
  deleted(user: string, graceMs: number): void {
    for (const message of this.messages) {
      if (message.user !== user || message.state === 'gone') continue
      this.#tell(message, 'deleted while it is %, may be sent for % ms', message.state, graceMs)
      Object.assign(message, { state: 'gone', deleted: { at: this.now, graceMs } })
      this.#waitingOf(message.destination).delete(message)
    }
  }

  /** The only process of the store has died, and another one has opened it: all leases have ended. */
  reopened(): void {
    for (const own of this.#unsettled.values()) {
      for (const message of own) {
        if (message.state !== 'leased') continue
        Object.assign(message, { state: 'backlog', dueAt: this.now, holder: undefined })
        this.#tell(message, 'released by a new process')
      }
    }
  }

  /** A worker has died: its requests are on their own. */
  died(worker: WorkerView): void {
    for (const { inFlight } of this.#lines.values()) {
      for (const post of inFlight) if (post.worker === worker) inFlight.delete(post)
    }
  }

  /** A worker has ended everything that was under way. */
  closed(worker: WorkerView, ms: number): void {
    this.disturbed(`${worker.name} has closed after ${Math.round(ms)} ms`, true)
    const isExcused =
      this.#storeFailedAt > this.now - ms - 1_000 || worker.suspendedAt > this.now - ms
    if (ms > CLOSE_MS && !isExcused) {
      this.breach('close', `${worker.name} took ${Math.round(ms)} ms to close`, undefined)
    }
  }

  /** A worker has new settings. */
  reloaded(destination: string, { url }: Endpoint, before: Endpoint | undefined): void {
    const line = this.#line(destination, url)
    line.changedAt = this.now
    line.fromBefore = new Set(line.inFlight)
    const rateLimit = before?.rateLimit ?? Infinity
    line.ratesBefore.push({ until: this.now, rateLimit })
  }

  /** A request arrives at an endpoint. */
  posted(
    worker: WorkerView,
    destination: string,
    url: string,
    body: string,
    attempt: number,
  ): Post | undefined {
    const message = this.#byName.get(`${destination} ${body}`)
    if (!message) {
      this.breach('books', `${body} was sent, which was not put`, undefined)
      return undefined
    }
    this.requests++
    const settings = worker.destinations.get(destination)
    const server = this.parts.server(url)
    const secrets = [settings?.sharedSecret, settings?.otherSecret]
    const post: Post = {
      ...{ message, attempt, destination, url, worker, at: this.now },
      hasKnownSecret: !server.secrets || server.secrets.some((secret) => secrets.includes(secret)),
      ...{ status: undefined, retryAfterMs: 0 },
    }
    this.#tell(message, 'attempt % sent by % to %', attempt, worker.name, url)
    const endpoint = settings?.webhooks.find((one) => one.url === url)
    if (!endpoint)
      this.breach(
        'settings',
        `it was sent to ${url}, which ${worker.name} does not deliver to any more`,
        message,
      )
    if (message.deleted) this.#checkDeleted(post, message.deleted)
    else this.#checkRepeat(post, settings?.otherSecret !== undefined)
    this.#checkWindow(message)
    message.posts.push(post)
    const line = this.#line(destination, url)
    line.inFlight.add(post)
    line.recent.push(post)
    if (endpoint) this.#checkLimits(line, post, endpoint)
    return post
  }

  #checkRepeat(post: Post, isRotating: boolean): void {
    const { message, attempt, url } = post
    if (attempt > message.attempt)
      this.breach('fencing', `attempt ${attempt} was sent, which nobody claimed`, message)
    if (message.posts.some((other) => other.status === 200 && other.attempt < attempt))
      this.repeats++
    if (attempt === message.attempt && message.state !== 'leased') {
      this.breach(
        'repeats',
        `it was sent in attempt ${attempt}, although it is ${message.state}`,
        message,
      )
    }
    const same = message.posts.filter((other) => other.attempt === attempt && other.url === url)
    const isSecondSecret = same.length < 3 && same.every(({ status }) => status === 401)
    if (same.length > 0 && !(isSecondSecret && (isRotating || same.length < 3))) {
      this.breach(
        'repeats',
        `attempt ${attempt} was sent to ${url} ${same.length + 1} times`,
        message,
      )
    }
  }

  #checkDeleted({ message, worker }: Post, { at, graceMs }: { at: number; graceMs: number }): void {
    const since = Math.max(at, worker.suspendedUntil, this.#storeFailedAt)
    const lateMs = Math.round(this.now - since)
    if (lateMs > graceMs)
      this.breach('deletions', `it was sent ${lateMs} ms after it was deleted`, message)
  }

  #checkWindow(message: Tracked): void {
    const sinceMs = this.now - (message.firstAt ?? this.now)
    if (sinceMs <= WINDOW_MS + 1_000 || message.counted < MIN_ATTEMPTS) return
    const last = message.posts.at(-1)
    const lastMs = (last?.at ?? this.now) - (message.firstAt ?? this.now)
    if (last && last.attempt < message.attempt && lastMs > WINDOW_MS) {
      this.breach(
        'window',
        `it was sent ${Math.round(sinceMs / 60_000)} minutes after the first attempt`,
        message,
      )
    }
  }

  #checkLimits(line: Line, post: Post, endpoint: Endpoint): void {
    const { inFlight, recent, changedAt, fromBefore, ratesBefore } = line
    const { concurrency, rateLimit } = endpoint
    while ((recent[0]?.at ?? Infinity) < this.now - 60_000) recent.shift()
    const workers = this.parts.workers().filter(({ isDead }) => !isDead).length
    const times = this.#excess(workers)
    // The workers do not get new settings at the same moment.
    const isExcused = (other: Post) => workers > 1 && fromBefore.has(other)
    if (inFlight.size > concurrency) {
      const own = Array.from(inFlight).filter(
        (other) => other.worker.suspendedUntil <= this.now && !isExcused(other),
      )
      const most = Math.max(concurrency, workers) * times
      if (own.length > most) {
        this.breach(
          'concurrency',
          `${own.length} requests are under way at ${post.url}, ${most} may be`,
          post.message,
        )
      }
    }
    while ((ratesBefore[0]?.until ?? Infinity) < this.now - 1_000) ratesBefore.shift()
    if (rateLimit !== undefined && (workers === 1 || this.now - changedAt > 2_000)) {
      const since = recent.filter(({ at }) => at > this.now - 1_000).length
      const highest = Math.max(rateLimit, ...ratesBefore.map((one) => one.rateLimit))
      const most = (highest * 1.3 + workers) * times
      if (since > most) {
        this.breach(
          'rate',
          `${since} requests went to ${post.url} in a second, ${most} may`,
          post.message,
        )
      }
    }
    this.#checkDown(line, post, endpoint)
  }

  /**
   * How often all workers together may have the limits of an endpoint. Of workers that join at once, the first one takes
   * all, the second one half, and so on, until the next heartbeat. After an outage of the store nobody is known.
   */
  #excess(workers: number): number {
    if (this.now - this.#storeFailedAt < JOINING_MS) return Math.max(1, workers)
    if (this.now - this.#membersAt >= JOINING_MS) return 1
    let times = 0
    for (let n = 1; n <= workers; n++) times += 1 / n
    return Math.max(2, times)
  }

  #checkDown(line: Line, post: Post, { concurrency }: Endpoint): void {
    const since = Math.max(line.server.downSince ?? Infinity, this.#calmSince, line.changedAt)
    if (since === Infinity) return
    if (since !== line.downSince) Object.assign(line, { downSince: since, downPosts: 0 })
    line.downPosts++
    const downMs = this.now - since
    const most = 2 * concurrency + MOST_BEFORE + downMs / PROBE_EVERY_MS
    if (line.downPosts > most) {
      this.breach(
        'probes',
        `${line.downPosts} requests went to ${post.url}, which has been down for ${Math.round(downMs / 1_000)} s`,
        post.message,
      )
    }
  }

  /** The worker has the answer. */
  answered(post: Post, { status, code, retryAfterMs }: Reply): void {
    this.#line(post.destination, post.url).inFlight.delete(post)
    post.status = status ?? 'none'
    post.retryAfterMs = Math.min(retryAfterMs ?? 0, MAX_RETRY_AFTER_MS)
    this.#tell(post.message, '% answered % to attempt %', post.url, status ?? code, post.attempt)
  }

  #sample(): void {
    for (const destination of this.parts.destinations()) {
      for (const endpoint of destination.webhooks) {
        this.#sampleLine(destination, endpoint)
      }
    }
  }

  #sampleLine(destination: Destination, endpoint: Endpoint): void {
    const line = this.#line(destination.name, endpoint.url)
    const goodSince = this.#goodSince(line, destination)
    if (goodSince === undefined) {
      line.idleSince = line.overtakenSince = undefined
      return
    }
    const own = this.#waitingOf(destination.name)
    const isDue = (message: Tracked, forMs: number) =>
      message.dueAt <= this.now - forMs &&
      !message.isPoison &&
      // Those that were tried wait behind those that always fail: only the end of the round has a bound for them.
      (!this.hasPoison || message.attempt === 0) &&
      !message.refusedBy.includes(endpoint.url)
    const last = line.recent.filter(({ at }) => at > this.now - SAMPLE_MS)
    const isIdle = last.length < this.#fewest(line, endpoint)
    const waiting = isIdle ? find(own, (message) => isDue(message, SAMPLE_MS)) : undefined
    if (!waiting) line.idleSince = undefined
    else {
      line.idleSince ??= this.now - SAMPLE_MS
      const forMs = this.now - Math.max(line.idleSince, goodSince)
      const [bound, mostMs] = this.#bound(line, goodSince)
      this.longest[bound] = Math.max(this.longest[bound] ?? 0, forMs)
      if (forMs > mostMs) {
        this.breach(
          'progress',
          `it is due, and ${endpoint.url} could take it, but gets ${last.length} requests in ${SAMPLE_MS} ms for ${Math.round(forMs / 1_000)} s (${bound})`,
          waiting,
        )
      }
    }
    this.#sampleBulk(line, last, own, goodSince, isDue)
  }

  #sampleBulk(
    line: Line,
    last: readonly Post[],
    own: Iterable<Tracked>,
    goodSince: number,
    isDue: (message: Tracked, forMs: number) => boolean,
  ): void {
    const bulk = last.filter(({ message }) => message.isBulk).length
    const isBulkAhead = !this.hasPoison && bulk > 2 * (last.length - bulk) + 4
    const waiting = isBulkAhead
      ? find(own, (message) => !message.isBulk && isDue(message, 2 * SAMPLE_MS))
      : undefined
    if (!waiting) {
      line.overtakenSince = undefined
      return
    }
    line.overtakenSince ??= this.now
    const forMs = this.now - Math.max(line.overtakenSince, goodSince)
    this.longest['behind bulk'] = Math.max(this.longest['behind bulk'] ?? 0, forMs)
    if (forMs > OVERTAKEN_MS) {
      this.breach('bulk', `it waits behind bulk work for ${Math.round(forMs / 1_000)} s`, waiting)
    }
  }

  /** Since when an endpoint could take what is due; `undefined` if it can't now. */
  #goodSince({ server, changedAt }: Line, { enabled }: Destination): number | undefined {
    const workers = this.parts.workers().filter(({ isDead }) => !isDead)
    const isAbsent = workers.length === 0 || workers.some((one) => one.suspendedUntil > this.now)
    if (!enabled || isAbsent || !this.parts.isStoreUp() || server.upSince === Infinity)
      return undefined
    const since = Math.max(server.upSince, server.excusedUntil, this.#calmSince, changedAt)
    return since < this.now ? since : undefined
  }

  #bound({ server }: Line, goodSince: number): [string, number] {
    if (this.hasPoison) return ['poison', POISON_IDLE_MS]
    if (server.plan.takes !== undefined) return ['throttled', THROTTLED_IDLE_MS]
    if (this.now - goodSince > STEADY_MS) return ['steady', STEADY_IDLE_MS]
    return ['recovering', IDLE_MS]
  }

  /** With fewer requests than this in {@link SAMPLE_MS}, an endpoint has room: a tenth of what it could take. */
  #fewest({ server }: Line, { concurrency, rateLimit = Infinity }: Endpoint): number {
    // Beside a slower endpoint, it may get new messages at each tick only: four times a second.
    const perSecond = Math.min(
      concurrency * 4,
      (concurrency * 1_000) / server.plan.latencyMs[1],
      server.plan.takes ?? Infinity,
      rateLimit,
      50,
    )
    return Math.max(1, (perSecond * SAMPLE_MS) / 10_000)
  }

  breach(promise: string, fault: string, message: Tracked | undefined): void {
    this.breaches.push({ at: this.now, promise, fault, message })
  }

  /** Everything in the store is as it was seen. `stateOf` asks the store. */
  checkBooks(stateOf: (id: number) => State | undefined, count: number): void {
    for (const message of this.messages) {
      if (message.state === 'gone') continue
      const state = stateOf(message.id)
      if (state !== message.state) {
        this.breach(
          'books',
          `the store has it as ${state ?? 'nothing'}, but it is ${message.state}`,
          message,
        )
      }
    }
    const known = this.messages.filter(({ state }) => state !== 'gone').length
    if (count !== known)
      this.breach('books', `the store has ${count} deliveries, and ${known} were put`, undefined)
  }

  /** Sweeping has changed rows: those may be gone or dead by their age. */
  swept(retentionMs: number, stateOf: (id: number) => State | undefined): void {
    for (const message of this.messages) {
      if (message.state === 'gone') continue
      const state = stateOf(message.id)
      if (state === message.state) continue
      const isOld = this.now - message.receivedAt > retentionMs
      const isSettled = ['done', 'dead', 'skipped'].includes(message.state)
      if (!isOld || (state === undefined && !isSettled)) {
        this.breach('retention', `it was swept while it was ${message.state}`, message)
      }
      this.#tell(message, 'swept: %', state ?? 'gone')
      message.state = state ?? 'gone'
      if (state === 'dead') message.receivedAt = this.now
      this.#waitingOf(message.destination).delete(message)
    }
  }

  #line(destination: string, url: string): Line {
    const key = `${destination} ${url}`
    let line = this.#lines.get(key)
    if (!line) {
      line = {
        ...{ server: this.parts.server(url), inFlight: new Set(), recent: [] },
        ...{ changedAt: this.now, fromBefore: new Set(), ratesBefore: [] },
        ...{ idleSince: undefined, overtakenSince: undefined, downSince: Infinity, downPosts: 0 },
      }
      this.#lines.set(key, line)
    }
    return line
  }

  #waitingOf(destination: string): Set<Tracked> {
    let own = this.#unsettled.get(destination)
    if (!own) this.#unsettled.set(destination, (own = new Set()))
    return own
  }

  #tell(message: Tracked, what: string, ...values: (string | number)[]): void {
    message.story.push([this.now, what, ...values])
  }
}

/** What happened, in words. */
export function linesOf(story: readonly Told[]): string[] {
  return story.map(([at, what, ...values]) => {
    let n = 0
    return `${timeOf(at)}  ${what.replaceAll('%', () => String(values[n++]))}`
  })
}

export function timeOf(ms: number): string {
  return `${(ms / 1_000).toFixed(3).padStart(10)} s`
}

/** Whether the endpoint refused the message, and not only a signature with a secret that is not its own. */
function isRefusal({ status, hasKnownSecret }: Post): boolean {
  if (status === 401) return !hasKnownSecret
  return typeof status === 'number' && status >= 400 && status < 500 && status !== 429
}

function find<T>(all: Iterable<T>, isWanted: (one: T) => boolean): T | undefined {
  for (const one of all) if (isWanted(one)) return one
  return undefined
}
