// Plays a plan, and tells what came of it.
import type { Destination, Endpoint } from '../../src/settings/settings.js'
import { memoryBackend, sqliteBackend } from './backend.js'
import { dice } from './chance.js'
import { VirtualClock } from './clock.js'
import { Judge, linesOf, timeOf, type Tracked } from './judge.js'
import { Server } from './network.js'
import { planOf, USERS, type Act, type DestinationPlan, type Plan } from './plan.js'
import type { Stage } from './stage.js'
import { SimWorker, type Call, type Fate, type World } from './worker.js'

export { seedsOf, THEMES } from './plan.js'

const MINUTE = 60_000

/** The longest wait for an attempt: 18 minutes by the schedule, or a `Retry-After` of 10 minutes; then a breaker's wait. */
const QUIET_MS = 30 * MINUTE

/** How often a spell of calls comes, and how long it is. */
const SPELL_EVERY_MS = 10 * MINUTE
const SPELL_MS = 90_000

/** An endpoint that takes a number of requests per second gets at least this share of them. */
const LEAST_SHARE = 0.3

/** Messages that were tried wait behind those that always fail, each of which may take a probe: 36 s at most. */
const POISON_PROBE_MS = 40_000

/** How long a worker may send what was deleted without a word to it: it asks once a second for what is under way for a second. */
const UNTOLD_MS = 3_000

/** How a round went. */
export interface Round {
  seed: number
  theme: string
  /** `seed N: promise: fault`, for each promise that was broken. */
  faults: string[]
  story: string[]
  simulatedMs: number
  messages: number
  requests: number
  /** Requests for messages that an endpoint had taken before. */
  repeats: number
  /** The longest times in ms for which something due was not sent, by the bound that applies. */
  longest: Readonly<Record<string, number>>
}

/** Plays the round of a seed with these parts of the product. */
export async function play(seed: number, stage: Stage): Promise<Round> {
  const plan = planOf(seed)
  const clock = new VirtualClock()
  const { store } = plan
  const open = store === 'memory' ? undefined : await stage.loadDriver()
  const now = () => clock.now
  const backend = open ? sqliteBackend(stage, open, now, store === 'engine') : memoryBackend(now)
  const game = new Game(plan, clock, stage, backend)
  const restore = clock.install(dice(seed + 1).random)
  try {
    await game.play()
  } catch (error) {
    game.crashed(error)
  } finally {
    restore()
    backend.close()
  }
  return game.told()
}

class Game {
  readonly #dice
  readonly #judge: Judge
  readonly #world: World
  readonly #servers = new Map<string, Server>()
  #workers: SimWorker[] = []
  #started = 0
  #destinations: Destination[]
  #made = 0
  #fault: { kind: 'full' | 'away' | 'flaky'; until: number } | undefined
  /** Calls that no worker has accepted yet. */
  #calls = 0
  #isQuiet = false

  constructor(
    readonly plan: Plan,
    readonly clock: VirtualClock,
    stage: Stage,
    backend: World['backend'],
  ) {
    this.#dice = dice(plan.seed + 2)
    for (const { endpoints } of plan.destinations) {
      for (const { server } of endpoints) {
        this.#servers.set(server.url, new Server(server, clock, this.#dice))
      }
    }
    const server = (url: string) => {
      const found = this.#servers.get(url)
      if (!found) throw new Error(`There is no endpoint ${url}.`)
      return found
    }
    this.#judge = new Judge({
      ...{ clock, server, workers: () => this.#workers.filter((one) => !one.isDead) },
      isStoreUp: () => this.#fault === undefined,
      destinations: () => this.#destinations,
    })
    this.#judge.hasPoison = plan.destinations.some(
      ({ poison, bursts }) => poison > 0 || bursts.some(({ isPoison }) => isPoison),
    )
    this.#world = {
      ...{ clock, stage, backend, server, judge: this.#judge, dice: this.#dice },
      latencyMs: plan.latencyMs,
      fateOf: (isPut) => this.#fateOf(isPut),
    }
    this.#destinations = plan.destinations.map(({ name, sources, secret, endpoints }) => ({
      ...{ name, sources, enabled: true, sharedSecret: secret },
      webhooks: endpoints.map(({ settings }) => settings),
    }))
  }

  async play(): Promise<void> {
    const { plan, clock } = this
    const { backend } = this.#world
    for (let n = 0; n < plan.workers; n++) this.#join()
    for (const destination of plan.destinations) this.#arrive(destination)
    for (const { at, act } of plan.acts)
      clock.after(at, () => {
        this.#act(act)
      })
    const isOver = () => this.#judge.breaches.length > 0
    await clock.run(plan.activeMs, isOver)
    if (isOver()) return
    this.#heal()
    const isDone = () => isOver() || (this.#calls === 0 && this.#judge.unsettled === 0)
    await clock.run(plan.activeMs + this.#quietMs(), isDone)
    this.#checkEnd()
    this.#judge.checkBooks((id) => backend.stateOf(id), backend.count())
  }

  /** How long everything may take once all endpoints are healthy. */
  #quietMs(): number {
    let slowestMs = 0
    for (const { endpoints, name } of this.plan.destinations) {
      const waiting = this.#judge.messages.filter(({ destination }) => destination === name).length
      const perSecond = Math.max(
        ...endpoints.map(({ settings, server }) => capacityOf(settings, server)),
      )
      slowestMs = Math.max(slowestMs, (waiting * 1_000) / (perSecond * LEAST_SHARE))
    }
    const poison = this.#judge.messages.filter(({ isPoison }) => isPoison).length
    return QUIET_MS + slowestMs + poison * POISON_PROBE_MS
  }

  #checkEnd(): void {
    if (this.#judge.breaches.length > 0) return
    const left = this.#judge.messages.filter(
      ({ state, isPoison }) => ['fresh', 'backlog', 'bulk', 'leased'].includes(state) && !isPoison,
    )
    if (left.length === 0) return
    const fault = `${left.length} messages still wait after ${Math.round(this.#quietMs() / MINUTE)} minutes without any fault`
    this.#judge.breach('end', fault, left[0])
  }

  /** From now on nothing fails any more. */
  #heal(): void {
    this.#isQuiet = true
    this.#fault = undefined
    this.#judge.disturbed('from now on nothing fails')
    for (const server of this.#servers.values()) server.heal()
    if (this.#alive().length === 0) this.#join()
    this.#reload(this.#destinations.map((one) => ({ ...one, enabled: true })))
  }

  #alive(): SimWorker[] {
    return this.#workers.filter(({ isDead, isClosing }) => !isDead && !isClosing)
  }

  #join(): void {
    const worker = new SimWorker(`w${++this.#started}`, this.#world)
    this.#workers = [...this.#workers.filter(({ isDead }) => !isDead), worker]
    this.#judge.disturbed(`${worker.name} starts`, true)
    worker.soon(() => void worker.start(this.#destinations))
  }

  #reload(destinations: Destination[]): void {
    this.#destinations = destinations
    for (const worker of this.#alive()) {
      worker.soon(() => {
        worker.use(destinations)
      })
    }
  }

  #fateOf(isPut: boolean): Fate {
    const fault = this.#fault
    if (!fault) return 'done'
    if (fault.kind === 'full') return isPut ? 'refused' : 'done'
    if (fault.kind === 'away') return 'refused'
    return this.#dice.pick(['done', 'done', 'refused', 'lost'])
  }

  #arrive(plan: DestinationPlan): void {
    const { clock } = this
    const next = () => {
      if (this.#isQuiet) return
      this.#call(plan, false, this.#dice.chance(plan.poison))
      clock.after(-Math.log(1 - this.#dice.random()) * this.#paceOf(plan), next)
    }
    clock.after(this.#dice.between(0, plan.everyMs), next)
    for (const { at, count, isBulk, isPoison } of plan.bursts) {
      clock.after(at, () => {
        for (let n = 0; n < count; n++) this.#call(plan, isBulk, isPoison)
        if (this.plan.acts.some(({ act }) => act.do === 'delete')) this.#deleteSoon()
      })
    }
  }

  /** Most calls come in spells. */
  #paceOf({ everyMs, spellAt }: DestinationPlan): number {
    const isBusy = (this.clock.now + spellAt) % SPELL_EVERY_MS < SPELL_MS
    return isBusy ? everyMs : everyMs * 20
  }

  #call({ name: destination, sources }: DestinationPlan, isBulk: boolean, isPoison: boolean): void {
    const kind = isPoison ? 'poison' : isBulk ? 'bulk' : 'good'
    const name = `${kind}-${++this.#made}`
    this.#calls++
    const user = `u${this.#made % USERS}`
    this.#send({ name, user, destination, isBulk, source: this.#dice.pick(sources) })
  }

  /** A client sends until it is answered. */
  #send(call: Call): void {
    const again = () =>
      this.clock.after(this.#dice.between(1_000, 5_000), () => {
        this.#send(call)
      })
    const alive = this.#alive()
    if (alive.length === 0) {
      again()
      return
    }
    const worker = this.#dice.pick(alive)
    let isAnswered = false
    worker.soon(() => {
      void worker.take(call).then((isTaken) => {
        if (isAnswered) return
        isAnswered = true
        if (isTaken) this.#calls--
        else again()
      })
    })
    const patience = () => {
      if (isAnswered) return
      isAnswered = true
      this.#send(call)
    }
    if (this.plan.acts.length > 0) this.clock.after(10_000, patience)
  }

  #act(act: Act): void {
    if (this.#isQuiet) return
    switch (act.do) {
      case 'kill':
      case 'close':
      case 'suspend':
        this.#strike(act)
        break
      case 'join':
        if (this.#world.backend.workers && this.#alive().length < 4) this.#join()
        break
      case 'store':
        this.#breakStore(act.fault, act.forMs)
        break
      case 'replay':
        this.#replay()
        break
      case 'sweep':
        this.#sweep()
        break
      case 'delete':
        this.#delete(act)
        break
      case 'jump':
        this.#world.backend.jump(act.byMs)
        this.#judge.note(`the system's clock jumps by ${act.byMs} ms`)
        break
      default:
        this.#change(act)
    }
  }

  /** Something happens to one worker. */
  #strike(act: Extract<Act, { do: 'kill' | 'close' } | { do: 'suspend' }>): void {
    const alive = this.#alive().filter(({ suspendedUntil }) => suspendedUntil <= this.clock.now)
    if (alive.length === 0) return
    const worker = this.#dice.pick(alive)
    if (act.do === 'suspend') {
      this.#judge.disturbed(`${worker.name} stands still for ${act.forMs} ms`, true)
      worker.suspendedAt = this.clock.now
      worker.suspendedUntil = this.clock.now + act.forMs
      this.clock.after(act.forMs, () => {
        this.#judge.disturbed(`${worker.name} goes on`, true)
      })
      return
    }
    const end = () => {
      const { backend } = this.#world
      if (backend.workers === undefined) {
        backend.reopen()
        this.#judge.reopened()
      }
      if (this.#alive().length === 0) this.#join()
    }
    if (act.do === 'kill') {
      this.#judge.disturbed(`${worker.name} is killed`, true)
      worker.die()
      this.clock.after(this.#dice.between(100, 20_000), end)
      return
    }
    this.#judge.disturbed(`${worker.name} closes`, true)
    worker.soon(() => void worker.close().then(end))
  }

  #breakStore(kind: 'full' | 'away' | 'flaky', forMs: number): void {
    const fault = { kind, until: this.clock.now + forMs }
    this.#fault = fault
    this.#judge.disturbed(`the store is ${kind} for ${forMs} ms`)
    this.clock.after(forMs, () => {
      if (this.#fault !== fault) return
      this.#fault = undefined
      this.#judge.disturbed('the store answers again')
    })
  }

  #replay(): void {
    const dead = this.#judge.messages.filter(({ state }) => state === 'dead').map(({ id }) => id)
    const lane = this.#dice.pick(['backlog', 'bulk'] as const)
    this.#judge.replayed(this.#world.backend.replay(dead, lane), lane)
  }

  #sweep(): void {
    const { backend } = this.#world
    const { retentionMs } = this.plan
    while (backend.sweep(retentionMs, 100) === 100);
    this.#judge.swept(retentionMs, (id) => backend.stateOf(id))
  }

  /** Deletes users while calls of theirs are being stored. */
  #deleteSoon(): void {
    const user = this.#dice.between(0, USERS - 1)
    this.clock.after(this.#dice.between(0, this.plan.latencyMs), () => {
      this.#delete({ do: 'delete', user, isHeard: true })
    })
  }

  /** Half of the users are deleted. The process that does it knows at once. The others are told, or have to ask. */
  #delete({ user, isHeard }: Extract<Act, { do: 'delete' }>): void {
    const { backend } = this.#world
    const isTold = isHeard || !backend.workers
    for (let n = 0; n < USERS / 2; n++) {
      const name = `u${(user + n) % USERS}`
      const ids = backend.purge(name)
      this.#judge.deleted(name, isTold ? this.plan.latencyMs : UNTOLD_MS)
      if (isTold) for (const worker of this.#workers) this.#tellDeleted(worker, ids)
    }
  }

  #tellDeleted(worker: SimWorker, ids: readonly number[]): void {
    const tell = () => {
      worker.recall(ids)
    }
    if (this.#world.backend.workers) {
      this.clock.after(this.#dice.between(0, this.plan.latencyMs), tell, worker)
    } else tell()
  }

  #change(act: Extract<Act, { destination: number }>): void {
    const destination = this.#destinations[act.destination]
    if (!destination) return
    this.#judge.note(`reload: ${act.do} ${destination.name}`)
    const put = (changed: Partial<Destination>) => {
      this.#reload(
        this.#destinations.map((one) =>
          one.name === destination.name ? { ...one, ...changed } : one,
        ),
      )
    }
    const [first, ...others] = destination.webhooks
    if (!first) return
    switch (act.do) {
      case 'disable':
        put({ enabled: false })
        this.#back(act.forMs, put)
        break
      case 'remove':
        // A destination that is not in the settings and one that is disabled are the same to the deliver stage.
        put({ enabled: false })
        this.#back(act.forMs, put)
        break
      case 'headers':
        put({ webhooks: [{ ...first, headers: { 'x-version': `${this.clock.now}` } }, ...others] })
        break
      case 'limits':
        put({ webhooks: [this.#otherLimits(first), ...others] })
        break
      case 'endpoint':
        this.#swap(destination, put)
        break
      case 'rotate':
        this.#rotate(destination, put)
    }
  }

  #back(forMs: number, put: (changed: Partial<Destination>) => void): void {
    this.clock.after(forMs, () => {
      this.#judge.note('reload: enabled again')
      put({ enabled: true })
    })
  }

  #otherLimits({ url, headers }: Endpoint): Endpoint {
    const rateLimit = this.#dice.pick([undefined, 5, 50])
    const concurrency = this.#dice.pick([1, 2, 8, 40, 128])
    return { url, headers, concurrency, ...(rateLimit !== undefined && { rateLimit }) }
  }

  /** Removes an endpoint, or puts one back that was removed. */
  #swap(destination: Destination, put: (changed: Partial<Destination>) => void): void {
    const planned = this.plan.destinations.find(({ name }) => name === destination.name)
    const all = planned?.endpoints.map(({ settings }) => settings) ?? []
    const missing = all.find(({ url }) => destination.webhooks.every((one) => one.url !== url))
    if (missing) put({ webhooks: [...destination.webhooks, missing] })
    else if (destination.webhooks.length > 1) put({ webhooks: destination.webhooks.slice(1) })
  }

  /** A new secret beside the old one; then each endpoint takes it over; then the old one goes. */
  #rotate(destination: Destination, put: (changed: Partial<Destination>) => void): void {
    const old = destination.sharedSecret ?? ''
    const other = `${destination.name} new ${this.clock.now}`
    put({ sharedSecret: old, otherSecret: other })
    let lastMs = 0
    for (const { url } of destination.webhooks) {
      const atMs = this.#dice.between(20_000, 5 * MINUTE)
      lastMs = Math.max(lastMs, atMs)
      this.clock.after(atMs, () => {
        this.#judge.note(`${url} knows the new secret only`)
        const server = this.#servers.get(url)
        if (server) server.secrets = [other]
      })
    }
    this.clock.after(lastMs + 20_000, () => {
      this.#judge.note('reload: the old secret is gone')
      put({ sharedSecret: other, otherSecret: undefined })
    })
  }

  crashed(error: unknown): void {
    const fault = error instanceof Error ? (error.stack ?? error.message) : String(error)
    this.#judge.breach('crash', fault, undefined)
  }

  told(): Round {
    const { breaches, messages, requests, repeats, longest } = this.#judge
    const { seed, theme } = this.plan
    return {
      ...{ seed, theme, requests, repeats, longest, simulatedMs: this.clock.now },
      messages: messages.length,
      faults: breaches
        .slice(0, 3)
        .map(({ promise, fault }) => `seed ${seed}: ${promise}: ${fault}`),
      story: this.#story(breaches[0]?.message),
    }
  }

  #story(message: Tracked | undefined): string[] {
    const { plan } = this
    const { breaches, events } = this.#judge
    const settings = this.#destinations.map(
      ({ name, webhooks }) =>
        `  ${name}: ${webhooks.map(({ url, concurrency, rateLimit }) => `${url} (${concurrency} at once${rateLimit === undefined ? '' : `, ${rateLimit}/s`})`).join(', ')}`,
    )
    return [
      `Seed ${plan.seed}: ${plan.theme}; ${plan.workers} workers, ${plan.store}, ${plan.latencyMs} ms a call`,
      ...settings,
      ...breaches
        .slice(0, 3)
        .map(({ at, promise, fault }) => `  ${(at / 1_000).toFixed(3)} s: ${promise}: ${fault}`),
      ...(message ? [`Message ${message.name} for ${message.destination}:`] : []),
      ...[...linesOf([...(message?.story ?? []), ...events]), ...this.#phases(message)].sort(),
      `Again: npm run proof -- --only 6 --seed ${plan.seed}`,
    ]
  }

  #phases(message: Tracked | undefined): string[] {
    const own = this.plan.destinations.find(({ name }) => name === message?.destination)
    const all = own?.endpoints.flatMap(({ server: { url, phases } }) =>
      phases.map(({ from, mode }) => ({ from, text: `${url}: ${JSON.stringify(mode)}` })),
    )
    return (all ?? [])
      .filter(({ from }) => from <= this.clock.now)
      .map(({ from, text }) => `${timeOf(from)}  ${text}`)
  }
}

function capacityOf(
  { concurrency, rateLimit = Infinity }: Endpoint,
  {
    takes = Infinity,
    latencyMs,
  }: { takes: number | undefined; latencyMs: readonly [number, number] },
): number {
  return Math.min((concurrency * 1_000) / latencyMs[1], takes, rateLimit, 50)
}
