// What happens in a round. The seed alone decides.
import type { Endpoint } from '../../src/settings/settings.js'
import { dice, type Dice } from './chance.js'
import type { Mode, ServerPlan } from './network.js'

/** A destination, its endpoints, and the calls for it. */
export interface DestinationPlan {
  name: string
  endpoints: { settings: Endpoint; server: ServerPlan }[]
  secret: string | undefined
  sources: string[]
  /** The mean time between two calls in a busy spell, in ms. */
  everyMs: number
  /** Where it is between two spells at the start. */
  spellAt: number
  bursts: { at: number; count: number; isBulk: boolean; isPoison: boolean }[]
  /** The share of its calls that fail for ever. */
  poison: number
}

/** Something that somebody does to the service. */
export type Act =
  | { do: 'kill' | 'close' }
  | { do: 'join' | 'replay' | 'sweep' }
  | { do: 'suspend'; forMs: number }
  | { do: 'jump'; byMs: number }
  | { do: 'store'; fault: 'full' | 'away' | 'flaky'; forMs: number }
  | { do: 'disable' | 'remove'; destination: number; forMs: number }
  | { do: 'headers' | 'limits' | 'endpoint'; destination: number }
  | { do: 'rotate'; destination: number }
  | { do: 'delete'; user: number; isHeard: boolean }

export interface Plan {
  seed: number
  theme: string
  /** `engine`: several workers share the engine of the SQLite store, which several real processes can not. */
  store: 'memory' | 'sqlite' | 'engine'
  workers: number
  /** Of the store. */
  latencyMs: number
  /** How long things happen. After that, all endpoints are healthy. */
  activeMs: number
  retentionMs: number
  destinations: DestinationPlan[]
  acts: { at: number; act: Act }[]
}

/** How many users send the calls. */
export const USERS = 10

const MINUTE = 60_000
const HOUR = 60 * MINUTE

/** What a theme makes likely. */
interface Theme {
  destinations?: [number, number]
  endpoints?: [number, number]
  /** How many phases of each endpoint are no good. */
  outages?: [number, number]
  modes?: readonly Mode['kind'][]
  throttles?: number
  poison?: boolean
  acts?: readonly Act['do'][]
  workers?: [number, number]
  bulk?: number
  secrets?: boolean
  store?: Plan['store']
  /** How many acts. */
  most?: [number, number]
  /** How many bursts there are, and how many messages come in each. */
  bursts?: [number, number]
  burst?: number
  latencyMs?: readonly number[]
  /** The shortest time in which an endpoint answers. */
  leastMs?: readonly number[]
  hours?: number
  everyMs?: readonly number[]
  /** The status of endpoints that refuse. */
  refusals?: number
}

const FAILURES: readonly Mode['kind'][] = ['status', 'reset', 'hang']
const DELETIONS = Array<Act['do']>(12).fill('delete')
const RELOADS: readonly Act['do'][] = ['disable', 'remove', 'headers', 'limits', 'endpoint']

export const THEMES: Readonly<Record<string, Theme>> = {
  'endpoints that differ': { endpoints: [2, 5], outages: [0, 2] },
  outages: { outages: [1, 4] },
  'too many requests': { throttles: 1, burst: 1_500, outages: [0, 1], everyMs: [200, 500] },
  'messages that fail for ever': { poison: true, endpoints: [1, 2] },
  'a rotation of secrets': {
    leastMs: [1, 50, 1_000],
    secrets: true,
    acts: ['rotate', 'rotate', 'disable', 'headers', 'endpoint'],
    most: [1, 12],
    outages: [0, 2],
    refusals: 0,
  },
  reloads: {
    ...{ acts: RELOADS, most: [5, 60], endpoints: [1, 4], destinations: [1, 3], outages: [0, 2] },
    latencyMs: [0, 20, 100, 300],
  },
  'workers come and go': {
    workers: [1, 4],
    acts: ['kill', 'close', 'join', 'suspend'],
    outages: [0, 2],
  },
  'a store that fails': { acts: ['store'], workers: [1, 3], outages: [0, 1] },
  'bulk work': { bulk: 1, outages: [1, 4], leastMs: [50, 300, 1_000] },
  refusals: { endpoints: [2, 3], outages: [1, 3], refusals: 0.6 },
  'one process on SQLite': {
    ...{
      store: 'sqlite',
      acts: ['kill', 'close', 'suspend', 'replay', 'jump', 'store'],
      outages: [0, 2],
    },
    ...{ everyMs: [2_000, 5_000], leastMs: [5, 1_000], most: [4, 12] },
  },
  'several workers on the engine of SQLite': {
    ...{ store: 'engine', acts: ['kill', 'suspend', 'join', 'store'], outages: [0, 2] },
    ...{ workers: [2, 3], everyMs: [500, 2_000], leastMs: [5, 1_000, 4_000], most: [4, 12] },
  },
  'four hours and more': {
    ...{ hours: 7, burst: 20, outages: [1, 2], everyMs: [60_000, 300_000] },
    ...{ acts: ['replay', 'kill', 'join', 'sweep'], store: 'memory' },
  },
  'four hours on SQLite': {
    ...{ hours: 7, burst: 20, outages: [1, 2], everyMs: [120_000, 300_000], destinations: [1, 1] },
    ...{ acts: ['replay', 'kill', 'suspend', 'sweep', 'jump'], store: 'sqlite' },
  },
  'deletions of users': {
    ...{ acts: [...DELETIONS, 'rotate', 'join', ...RELOADS] },
    ...{ most: [40, 200], workers: [1, 3], endpoints: [1, 4], outages: [0, 2], burst: 1_000 },
    ...{ leastMs: [5, 1_000, 4_000], everyMs: [200, 500], secrets: true, refusals: 0 },
    latencyMs: [0, 20, 100],
  },
  'more messages than an endpoint takes': {
    ...{ bursts: [5, 10], burst: 2_000, leastMs: [50, 300], everyMs: [500, 2_000] },
    ...{ acts: [...RELOADS, 'delete', 'close', 'kill', 'suspend'], most: [30, 100] },
    ...{ endpoints: [1, 3], outages: [0, 2], workers: [1, 2], latencyMs: [2, 20, 100] },
  },
  everything: {
    ...{
      workers: [1, 3],
      acts: ['kill', 'close', 'join', 'suspend', 'store', 'replay', ...RELOADS],
    },
    ...{ outages: [0, 3], throttles: 0.3, bulk: 0.3, refusals: 0.1, destinations: [1, 4] },
  },
}

const NAMES = Object.keys(THEMES)

/** Seeds with the same theme. */
export function seedsOf(theme: string, count: number): number[] {
  const first = NAMES.indexOf(theme)
  if (first < 0) throw new Error(`There is no theme ${theme}.`)
  return Array.from({ length: count }, (_, n) => first + n * NAMES.length)
}

export function planOf(seed: number): Plan {
  const name = NAMES[seed % NAMES.length] ?? ''
  const theme = THEMES[name] ?? {}
  const chance = dice(seed)
  const { hours } = theme
  const activeMs = hours ? hours * HOUR : chance.between(15, 60) * MINUTE
  const count = chance.between(...(theme.destinations ?? [1, 2]))
  const destinations = Array.from({ length: count }, (_, n) =>
    destinationOf(`d${n}`, theme, activeMs, chance),
  )
  return {
    ...{ seed, theme: name, activeMs, destinations },
    store: theme.store ?? 'memory',
    workers: chance.between(...(theme.workers ?? [1, 1])),
    latencyMs: chance.pick(theme.latencyMs ?? [0, 0, 2, 20, 100]),
    retentionMs: 5 * HOUR,
    acts: actsOf(theme, activeMs, count, chance),
  }
}

function destinationOf(
  name: string,
  theme: Theme,
  activeMs: number,
  chance: Dice,
): DestinationPlan {
  const count = chance.between(...(theme.endpoints ?? [1, 3]))
  const isThrottled = chance.chance(theme.throttles ?? 0)
  const poison = theme.poison ? chance.pick([0, 0.02, 0.1]) : 0
  const secret = theme.secrets ? `${name} old` : undefined
  const endpoints = Array.from({ length: count }, (_, n) => {
    const url = `https://${name}-${n}.example.com/`
    const server = serverOf(url, theme, activeMs, isThrottled, secret, chance)
    return { settings: endpointOf(url, chance), server }
  })
  const everyMs = chance.pick(theme.everyMs ?? [500, 2_000, 5_000, 20_000])
  const burst = (isBulk: boolean, isPoison = false) => ({
    ...{ at: chance.between(0, activeMs / 2), isBulk, isPoison },
    count: isBulk ? chance.between(100, 2_000) : chance.between(1, theme.burst ?? 300),
  })
  return {
    ...{ name, endpoints, secret, everyMs, poison, spellAt: chance.between(0, 10 * MINUTE) },
    sources: chance.pick([['web'], ['web', 'app']]),
    bursts: [
      ...Array.from({ length: chance.between(...(theme.bursts ?? [0, 2])) }, () => burst(false)),
      ...(chance.chance(theme.bulk ?? 0) ? [burst(true), burst(true)] : []),
      ...(theme.poison ? [burst(false, true)] : []),
    ],
  }
}

function endpointOf(url: string, chance: Dice): Endpoint {
  const rateLimit = chance.chance(0.15) ? chance.pick([5, 20, 50]) : undefined
  const concurrency = chance.pick([1, 2, 3, 8, 40, 128])
  return { url, headers: {}, concurrency, ...(rateLimit !== undefined && { rateLimit }) }
}

function serverOf(
  url: string,
  theme: Theme,
  activeMs: number,
  isThrottled: boolean,
  secret: string | undefined,
  chance: Dice,
): ServerPlan {
  const least = chance.pick(theme.leastMs ?? [1, 5, 50])
  const phases: ServerPlan['phases'][number][] = []
  let from = 0
  const outages = chance.between(...(theme.outages ?? [0, 1]))
  for (let n = 0; n < outages; n++) {
    from += chance.between(MINUTE, (theme.hours ? HOUR : activeMs) / (outages + 1))
    phases.push({ from, mode: badMode(theme, chance) })
    const longest = theme.hours ? 6 * HOUR : 20 * MINUTE
    from += chance.between(1_000, chance.pick([10_000, MINUTE, longest, longest]))
    phases.push({ from, mode: { kind: 'up' } })
  }
  return {
    ...{ url, phases, latencyMs: [least, Math.min(least * chance.pick([1, 3, 10]), 4_900)] },
    takes: isThrottled ? chance.pick([5, 20, 50]) : undefined,
    retryAfterMs: chance.pick([undefined, 1_000, 5_000]),
    secrets: secret === undefined ? undefined : [secret],
  }
}

function badMode(theme: Theme, chance: Dice): Mode {
  if (chance.chance(theme.refusals ?? 0)) return { kind: 'status', status: 422, share: 1 }
  const kind = chance.pick(theme.modes ?? FAILURES)
  if (kind !== 'status') return { kind: kind as 'reset' | 'hang' }
  const status = chance.pick([500, 503, 503, 429])
  const retryAfterMs = chance.pick([undefined, undefined, 10_000, 300_000, 600_000])
  const share = chance.pick([1, 1, 0.5])
  return { kind, status, share, ...(retryAfterMs !== undefined && { retryAfterMs }) }
}

function actsOf(theme: Theme, activeMs: number, count: number, chance: Dice): Plan['acts'] {
  const kinds = theme.acts ?? []
  if (kinds.length === 0) return []
  const acts: Plan['acts'] = []
  let at = chance.between(MINUTE, 5 * MINUTE)
  for (
    const most = chance.between(...(theme.most ?? [1, 8]));
    acts.length < most && at < activeMs - 5 * MINUTE;
  ) {
    acts.push({ at, act: actOf(chance.pick(kinds), count, chance) })
    at += chance.between(10_000, (2 * activeMs) / most)
  }
  // Only one rotation: a second one would begin before the first has ended.
  const rotation = acts.findIndex(({ act }) => act.do === 'rotate')
  return acts.filter(({ act }, n) => act.do !== 'rotate' || n === rotation)
}

function actOf(kind: Act['do'], count: number, chance: Dice): Act {
  const destination = chance.between(0, count - 1)
  const forMs = chance.between(1_000, chance.pick([20_000, MINUTE, 5 * MINUTE]))
  switch (kind) {
    case 'suspend':
      return { do: kind, forMs }
    case 'jump':
      return { do: kind, byMs: chance.pick([-HOUR, HOUR, -30_000, 7 * 24 * HOUR]) }
    case 'store':
      return { do: kind, forMs, fault: chance.pick(['full', 'away', 'flaky']) }
    case 'disable':
    case 'remove':
      return { do: kind, destination, forMs }
    case 'delete':
      return { do: kind, user: chance.between(0, USERS - 1), isHeard: chance.chance(0.5) }
    case 'headers':
    case 'limits':
    case 'endpoint':
    case 'rotate':
      return { do: kind, destination }
    default:
      return { do: kind }
  }
}
