import type { Metric, Registry } from 'prom-client'

/** Names and values of what tells one series of a metric from another. */
export type Labels = Record<string, string>

/** One sample, as the registry prints it. */
export interface Sample {
  /** The metric's own name if it is left out. */
  metricName?: string
  labels: Labels
  value: number
}

/** What a metric is, beside its samples. */
export interface Description {
  /** By the conventions of Prometheus: unit last, `_total` for what only grows. */
  name: string
  help: string
  type: 'counter' | 'gauge' | 'histogram'
}

/**
 * Adds a metric whose samples are made when they are asked for. What happens in between is summed in plain numbers:
 * to look up labels for each event would cost more than all else that is counted.
 */
export function addMetric(
  registry: Registry,
  description: Description,
  samples: () => Sample[] | Promise<Sample[]>,
): void {
  const metric = { ...description, get: async () => ({ ...description, values: await samples() }) }
  // The registry asks for a name and for `get`, and its types for one of its own classes.
  registry.registerMetric(metric as unknown as Metric)
}

/** Counts by one more label: of a few values, which show up as they come. */
export class Counts {
  readonly #counts = new Map<string, number>()

  add(value: string, count = 1): void {
    this.#counts.set(value, (this.#counts.get(value) ?? 0) + count)
  }

  /** @param name - The label that the values belong to. */
  samples(name: string, labels: Labels): Sample[] {
    return Array.from(this.#counts, ([value, count]) => ({
      labels: { ...labels, [name]: value },
      value: count,
    }))
  }
}

/** How long something took, in buckets. */
export class Durations {
  readonly #counts: number[]
  #sumMs = 0

  /** @param bounds - The upper ends of the buckets, in seconds. */
  constructor(readonly bounds: readonly number[]) {
    this.#counts = new Array<number>(bounds.length + 1).fill(0)
  }

  add(ms: number): void {
    const seconds = ms / 1_000
    let bucket = 0
    while (bucket < this.bounds.length && seconds > (this.bounds[bucket] ?? 0)) bucket++
    this.#counts[bucket] = (this.#counts[bucket] ?? 0) + 1
    this.#sumMs += ms
  }

  samples(name: string, labels: Labels): Sample[] {
    let count = 0
    const buckets = this.#counts.map((here, i) => ({
      metricName: `${name}_bucket`,
      labels: { ...labels, le: String(this.bounds[i] ?? '+Inf') },
      value: (count += here),
    }))
    const sum = { metricName: `${name}_sum`, labels, value: this.#sumMs / 1_000 }
    return [...buckets, sum, { metricName: `${name}_count`, labels, value: count }]
  }
}
