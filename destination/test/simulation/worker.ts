// One worker process: the real deliver stage, with the world around it.
import type { DestinationQueue } from '../../src/deliver/destination-queue.js'
import type { DeliverEvents } from '../../src/deliver/deliverer.js'
import type { Dispatcher } from '../../src/deliver/dispatcher.js'
import type { EndedMessage } from '../../src/deliver/settler.js'
import type { SharedBreakers } from '../../src/deliver/shared-breakers.js'
import type { EnqueueEvents } from '../../src/enqueue/enqueue.js'
import type { DeliveryId, Settlement } from '../../src/model/delivery.js'
import type { Outcome } from '../../src/model/outcome.js'
import type { Destination, Endpoint } from '../../src/settings/settings.js'
import type { DispatchPort, SharedPort, WritePort } from '../../src/store/store.js'
import type { Workers } from '../../src/store/workers.js'
import { StoreError } from '../../src/store/store-error.js'
import type { Backend } from './backend.js'
import type { Dice } from './chance.js'
import type { VirtualClock } from './clock.js'
import type { Judge, WorkerView } from './judge.js'
import { outcomeOf, type Server } from './network.js'
import type { Stage } from './stage.js'

/** What a call of the store comes to. `lost`: it is carried out, but its answer does not arrive. */
export type Fate = 'done' | 'refused' | 'lost'

/** Everything around a worker. */
export interface World {
  clock: VirtualClock
  dice: Dice
  stage: Stage
  backend: Backend
  judge: Judge
  /** How long a call of the store takes. */
  latencyMs: number
  fateOf: (isPut: boolean) => Fate
  server: (url: string) => Server
}

const nothing = () => undefined

const EVENTS = {
  attempted: nothing,
  claimFailed: nothing,
  settleFailed: nothing,
  settleRecovered: nothing,
  settlementsRefused: nothing,
  messagesEnded: nothing,
  workersFailed: nothing,
  duplicated: nothing,
  committed: nothing,
  filtered: nothing,
  storeRefused: nothing,
} satisfies DeliverEvents & EnqueueEvents

/** A call as it goes through `enqueue`. */
export interface Call {
  name: string
  user: string
  destination: string
  source: string
  isBulk: boolean
}

/** The store, as a worker uses it. */
type WorkerPort = WritePort & DispatchPort & SharedPort<'workers' | 'gone'>

/** A worker. All its methods are called by its own timers: see {@link SimWorker.soon}. */
export class SimWorker implements WorkerView {
  isDead = false
  /** Whether it gets no more calls. */
  isClosing = false
  suspendedUntil = -Infinity
  suspendedAt = -Infinity
  destinations: ReadonlyMap<string, Destination> = new Map()
  readonly #port: WorkerPort
  readonly #membership: ReturnType<NonNullable<Backend['workers']>['join']> | undefined
  #dispatcher: Dispatcher | undefined
  #breakers: SharedBreakers | undefined
  #enqueue: ReturnType<Stage['createEnqueue']> | undefined
  #queues: DestinationQueue[] = []
  #settledListener: ((settlements: readonly Settlement[]) => void) | undefined

  constructor(
    readonly name: string,
    readonly world: World,
  ) {
    this.#membership = world.backend.workers?.join()
    this.#port = this.#createPort(this.#membership)
  }

  /** Lets it do something as soon as it gets its turn. */
  soon(work: () => void): void {
    this.world.clock.after(0, work, this)
  }

  /** Starts to deliver. It tries again if the store does not answer. */
  async start(destinations: readonly Destination[]): Promise<void> {
    const { stage, clock } = this.world
    const now = () => clock.now
    const workers = this.#port.shared?.workers
    while (workers && !this.#breakers) {
      this.#breakers = await stage.SharedBreakers.join({ workers, events: EVENTS, now }).catch(
        nothing,
      )
      if (!this.#breakers) await clock.wait(1_000, this)
    }
    const messagesEnded = (messages: readonly EndedMessage[]) => {
      this.world.judge.ended(messages)
    }
    const settler = new stage.Settler(this.#port, { ...EVENTS, messagesEnded }, now)
    this.#dispatcher = new stage.Dispatcher({
      ...{ store: this.#port, settler, events: EVENTS, now },
      random: () => this.world.dice.random(),
    })
    const parts = { store: this.#port, dispatcher: this.#dispatcher, events: EVENTS, now }
    this.#enqueue = stage.createEnqueue(parts)
    this.use(destinations)
  }

  /** Delivers by these settings from now on. */
  use(destinations: readonly Destination[]): void {
    const { stage, judge } = this.world
    if (!this.#dispatcher || this.isClosing) return
    this.#noteChanges(destinations, judge)
    const enabled = destinations.filter((one) => one.enabled)
    this.destinations = new Map(enabled.map((one) => [one.name, one]))
    const former = this.#queues
    this.#queues = Array.from(
      stage.destinationQueues(enabled, former, true, {
        connect: (endpoint) => this.#connect(endpoint, enabled),
        now: () => this.world.clock.now,
      }),
    )
    this.#breakers?.use(this.#queues)
    this.#dispatcher.use(this.#queues, [...stage.unusedEndpoints(former, this.#queues)])
  }

  /** These deliveries were deleted. */
  recall(ids: readonly DeliveryId[]): void {
    this.#dispatcher?.recall(new Set(ids))
  }

  /** Takes a call in. */
  async take({ name, user, destination, source, isBulk }: Call): Promise<boolean> {
    const known = this.destinations.get(destination)
    if (!this.#enqueue || this.isClosing) return false
    try {
      await this.#enqueue([
        {
          ...{ messageId: name, source, destination, type: 'track', user, body: name },
          ...{ isBulk, ...(!known && { skipReason: 'the destination is disabled' }) },
        },
      ])
      return true
    } catch (error) {
      if ((error as Error).name !== 'StoreError') throw error
      return false
    }
  }

  /** Ends all that is under way, and then the process. */
  async close(): Promise<void> {
    const { clock, judge } = this.world
    this.isClosing = true
    const startedAt = clock.now
    this.#dispatcher?.stop()
    await this.#dispatcher?.close()
    await this.#breakers?.close()
    this.#membership?.leave()
    judge.closed(this, clock.now - startedAt)
    this.die()
  }

  /** Ends at once, with all that it knows. */
  die(): void {
    this.isDead = true
    this.world.judge.died(this)
  }

  #noteChanges(destinations: readonly Destination[], judge: Judge): void {
    for (const { name, webhooks } of destinations) {
      const before = this.destinations.get(name)?.webhooks ?? []
      for (const endpoint of webhooks) {
        const known = before.find(({ url }) => url === endpoint.url)
        const isSame =
          known?.concurrency === endpoint.concurrency && known.rateLimit === endpoint.rateLimit
        if (!isSame) judge.reloaded(name, endpoint, known)
      }
    }
  }

  #connect({ url }: Endpoint, destinations: readonly Destination[]) {
    const { clock, judge } = this.world
    const server = this.world.server(url)
    const destination = destinations.find(({ webhooks }) => webhooks.some((one) => one.url === url))
    const name = destination?.name ?? ''
    return {
      post: (body: string, headers: readonly string[], done: (outcome: Outcome) => void) => {
        const attempt = Number(headers[headers.indexOf('X-Attempt') + 1])
        const post = judge.posted(this, name, url, body, attempt)
        const at = headers.indexOf('X-Signature')
        const signature = at < 0 ? undefined : headers[at + 1]
        const reply = server.answer(body, signature, body.includes('poison'))
        clock.after(
          reply.afterMs,
          () => {
            if (post) judge.answered(post, reply)
            done(outcomeOf(reply))
          },
          this,
        )
      },
      close: () => Promise.resolve(),
    }
  }

  #createPort(membership: Workers | undefined): WorkerPort {
    const { backend, judge } = this.world
    return {
      put: (deliveries) =>
        this.#ask(true, (isAnswered) => {
          const ids = backend.put(deliveries)
          judge.put(deliveries, ids, this, isAnswered)
          return ids
        }),
      claim: (claims) =>
        this.#ask(false, (isAnswered) => {
          const deliveries = backend.claim(claims)
          judge.claimed(deliveries, this, isAnswered)
          return deliveries
        }),
      due: () => this.#ask(false, () => backend.due()),
      onRemoved: () => undefined,
      settle: (settlements) =>
        this.#ask(false, () => {
          const accepted = backend.settle(settlements)
          judge.settled(settlements, accepted, this)
          return accepted
        }).then((accepted) => {
          this.#settledListener?.(settlements.filter((_, i) => accepted[i]))
          return accepted.filter((isAccepted) => !isAccepted).length
        }),
      onSettled: (listener) => {
        this.#settledListener = listener
      },
      ...(membership && {
        shared: {
          gone: (ids) =>
            this.#ask(false, () => ids.filter((id) => backend.stateOf(id) === undefined)),
          workers: {
            heartbeat: () => this.#ask(false, () => membership.heartbeat()),
            tryProbes: (...given) => this.#ask(false, () => membership.tryProbes(...given)),
            noteDown: (...given) => this.#ask(false, () => membership.noteDown(...given)),
            findDown: (maxMs) => this.#ask(false, () => membership.findDown(maxMs)),
            endProbes: (endpoints) => this.#ask(false, () => membership.endProbes(endpoints)),
          },
        },
      }),
    }
  }

  /** Asks the store. A call that is on its way is carried out even if the worker dies meanwhile. */
  async #ask<T>(isPut: boolean, work: (isAnswered: boolean) => T | Promise<T>): Promise<T> {
    const { clock, latencyMs, judge } = this.world
    if (latencyMs > 0) await clock.wait(latencyMs / 2, undefined)
    const fate = this.world.fateOf(isPut)
    if (fate !== 'done') judge.storeFailed()
    const answer = fate === 'refused' ? undefined : await work(fate === 'done')
    if (latencyMs > 0) await clock.wait(latencyMs / 2, this)
    if (fate === 'done') return answer as T // `work` has run
    throw new StoreError('failed', 'The store did not answer.')
  }
}
