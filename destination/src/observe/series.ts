import type { Metric, Registry } from 'prom-client'

/** Labels by their names. They distinguish the series of one metric. */
export type Labels = Record<string, string>

/** One sample in the form that the registry prints. */
export interface Sample {
  /** @defaultValue the name of the metric */
  metricName?: string
  labels: Labels
  value: number
}

/** The description of a metric. */
export interface Description {
  /** The name by the conventions of Prometheus: it ends with the unit, or with `_total` for a counter. */
  name: string
  help: string
  type: 'counter' | 'gauge' | 'histogram'
}

/**
 * Adds a metric whose samples are computed on each request. Events in between only change plain numbers, because a lookup
 * of labels for each event would be the largest cost of counting.
 */
export function addMetric(
  registry: Registry,
  description: Description,
  samples: () => Sample[] | Promise<Sample[]>,
): void {
  const metric = { ...description, get: async () => ({ ...description, values: await samples() }) }
  // The registry only uses `name` and `get`, but its types demand one of its own classes.
  registry.registerMetric(metric as unknown as Metric)
}

/** Counts events by the values of one label. A value appears with its first event; there must be few values. */
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

/** A histogram of durations. */
export class Durations {
  readonly #bounds: readonly number[]
  readonly #counts: number[]
  #sumMs = 0

  /** @param bounds - The upper ends of the buckets, in seconds. */
  constructor(bounds: readonly number[]) {
    this.#bounds = bounds
    this.#counts = new Array<number>(bounds.length + 1).fill(0)
  }

  add(ms: number): void {
    const seconds = ms / 1_000
    let bucket = 0
    while (bucket < this.#bounds.length && seconds > (this.#bounds[bucket] ?? 0)) bucket++
    this.#counts[bucket] = (this.#counts[bucket] ?? 0) + 1
    this.#sumMs += ms
  }

  samples(name: string, labels: Labels): Sample[] {
    let count = 0
    const buckets = this.#counts.map((here, i) => ({
      metricName: `${name}_bucket`,
      labels: { ...labels, le: String(this.#bounds[i] ?? '+Inf') },
      value: (count += here),
    }))
    const sum = { metricName: `${name}_sum`, labels, value: this.#sumMs / 1_000 }
    return [...buckets, sum, { metricName: `${name}_count`, labels, value: count }]
  }
}
