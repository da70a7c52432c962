import { CREW_BEAT_MS, type Crew } from '../store/store.js'
import { MAX_PROBE_MS, PROBE_MS, type Gate } from './breaker.js'
import type { Target } from './destination-queue.js'

/** How often gates are looked at, in ms. */
const TICK_MS = 250

/** How long to wait before an endpoint is asked for again that another worker probes, in ms. */
const ASK_MS = 1_000

/** What an accord works with. */
export interface AccordParts {
  crew: Crew
  /** The others could not be heard. Told once for failures in a row. */
  failed: (error: unknown) => void
  /** A monotonic clock, in ms. */
  now: () => number
}

interface Shared {
  gate: Gate
  /** Whether it was shut when it was looked at last. */
  wasShut: boolean
  /** When the leave to probe may be asked for again. */
  askAt: number
}

/**
 * Keeps the gates of this process in accord with those of the other workers: each has its part of an endpoint's cap,
 * and an endpoint that is down gets its probes from one of them at a time, at the pace of a single worker.
 *
 * It decides by what it heard last: while the store is away nothing changes but that no probe is sent.
 */
export class Accord {
  #shared = new Map<string, Shared>()
  #workers: number
  #beatAt: number
  #hasFailed = false
  #working: Promise<void> | undefined
  readonly #timer: NodeJS.Timeout

  private constructor(
    readonly parts: AccordParts,
    workers: number,
  ) {
    this.#workers = workers
    this.#beatAt = parts.now() + CREW_BEAT_MS
    this.#timer = setInterval(() => {
      void this.tick()
    }, TICK_MS)
  }

  /**
   * Makes this process one of the workers. Nothing may be sent before: the others count on it.
   *
   * @throws StoreError
   */
  static async join(parts: AccordParts): Promise<Accord> {
    return new Accord(parts, await parts.crew.beat())
  }

  /** Replaces the gates that are shared. */
  use(targets: readonly Target[]): void {
    const before = this.#shared
    this.#shared = new Map()
    for (const { destination, lines } of targets) {
      for (const { endpoint, gate } of lines) {
        // Endpoints with the same URL are of their destinations, each with a gate of its own.
        const name = `${destination.name} ${endpoint.url}`
        const known = before.get(name)
        gate.share(this.#workers)
        this.#shared.set(name, known?.gate === gate ? known : { gate, wasShut: false, askAt: 0 })
      }
    }
  }

  /** Tells the others, and asks them, what is due by now. Does it by itself, too. */
  tick(): Promise<void> {
    this.#working ??= this.#work().finally(() => {
      this.#working = undefined
    })
    return this.#working
  }

  /** Resolves once nothing is asked any more. */
  async close(): Promise<void> {
    clearInterval(this.#timer)
    await this.#working
  }

  async #work(): Promise<void> {
    try {
      await this.#beat()
      for (const [name, shared] of this.#shared) await this.#agree(name, shared)
      this.#hasFailed = false
    } catch (error) {
      if (!this.#hasFailed) this.parts.failed(error)
      this.#hasFailed = true
    }
  }

  async #beat(): Promise<void> {
    const { crew, now } = this.parts
    if (now() < this.#beatAt) return
    this.#beatAt = now() + CREW_BEAT_MS
    const workers = await crew.beat()
    if (workers === this.#workers) return
    this.#workers = workers
    for (const { gate } of this.#shared.values()) gate.share(workers)
  }

  async #agree(name: string, shared: Shared): Promise<void> {
    const { crew, now } = this.parts
    const { gate, wasShut } = shared
    if (wasShut && !gate.isShut) await crew.endProbes(name)
    shared.wasShut = gate.isShut
    if (now() < shared.askAt || !gate.isToAsk(now())) return
    const askedAt = now()
    const holdMs = await crew.tryProbe(name, PROBE_MS, MAX_PROBE_MS)
    if (holdMs > 0) gate.grant(askedAt + holdMs)
    else shared.askAt = now() + ASK_MS
  }
}
