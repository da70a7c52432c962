// What happens in a round of proof 7, and when. The seed alone decides.
import { dice } from '../random/prng.js'

const SECOND = 1_000
/** The sources of every round. */
export const SOURCES = ['web', 'app']
/** Calls are about these users; some of the users are deleted. */
export const USERS = 200
const AUDIENCES = ['big_spenders', 'vip']
const MEMBERS = 200

/** What a theme makes likely. `pause` is the longest time between two acts, in a round of a minute. */
const SQLITE = { store: 'sqlite', workers: [1, 1] }
const POSTGRES = { store: 'postgres', workers: [2, 3] }
const RELOADS = ['headers', 'limits', 'disable', 'remove', 'rename', 'rotate', 'wrong settings']
const ADMIN = ['audience', 'audience', 'deletion', 'replay']
export const THEMES = {
  'kills of one process on SQLite': { ...SQLITE, acts: ['kill', 'kill', 'suspend', 'restart'] },
  'reloads of several workers on PostgreSQL': { ...POSTGRES, acts: RELOADS },
  'reloads of one process on SQLite': { ...SQLITE, acts: RELOADS },
  'workers on PostgreSQL come and go': { ...POSTGRES, acts: ['kill', 'suspend', 'restart'] },
  'a slow disk': { ...SQLITE, acts: ['slow disk', 'kill', ...ADMIN] },
  'the server of PostgreSQL crashes': { ...POSTGRES, acts: ['database', 'database', 'kill'] },
  'audiences, deletions and replays': { ...SQLITE, acts: [...ADMIN, 'kill'], refusals: 0.5 },
  'everything on PostgreSQL': {
    ...POSTGRES,
    acts: [...RELOADS, ...ADMIN, 'kill', 'kill', 'suspend', 'restart', 'database'],
  },
  'everything on SQLite': {
    ...SQLITE,
    acts: [...RELOADS, ...ADMIN, 'kill', 'kill', 'suspend', 'restart', 'slow disk'],
  },
}
const NAMES = Object.keys(THEMES)

/** Seeds with the same theme. */
export const seedsOf = (theme, count) =>
  Array.from({ length: count }, (_, n) => NAMES.indexOf(theme) + n * NAMES.length)

/**
 * @param {boolean} isShort whether the round has 10 s and not a minute or two; the same seed then has another plan
 */
export function planOf(seed, { isShort }) {
  const name = NAMES[seed % NAMES.length]
  const theme = THEMES[name]
  const chance = dice(seed)
  const activeMs = isShort ? 10 * SECOND : chance.pick([40, 60, 60, 140]) * SECOND
  const destinations = Array.from({ length: chance.between(2, 4) }, (_, n) =>
    destinationOf(`d${n}`, n === 0, theme, activeMs, chance),
  )
  const workers = chance.between(...theme.workers)
  return {
    ...{ seed, theme: name, store: theme.store, activeMs, destinations },
    // The first process takes calls and delivers. The others deliver.
    roles: Array.from({ length: workers }, (_, n) => (n === 0 ? 'all' : chance.pick(ROLES))),
    batchEveryMs: chance.pick([60, 100, 200]),
    poison: chance.pick([0, 0, 0.01, 0.05]),
    bursts: Array.from({ length: chance.between(1, 3) }, () => ({
      ...{ at: chance.between(0, activeMs), count: chance.between(50, 500) },
      isBulk: chance.chance(0.6),
    })),
    acts: actsOf(theme, { activeMs, isShort, count: destinations.length, workers }, chance),
  }
}

const ROLES = ['all', 'worker', 'worker']

/** @param {boolean} isSteady whether its first endpoint stays healthy, with room, and nobody switches it off */
function destinationOf(name, isSteady, theme, activeMs, chance) {
  const endpoints = Array.from({ length: chance.between(1, 3) }, (_, n) => {
    const canFail = !isSteady || n > 0
    return {
      concurrency: chance.pick(canFail ? [2, 4, 8, 40, 128] : [40, 128]),
      rateLimit: canFail && chance.chance(0.15) ? chance.pick([50, 100]) : undefined,
      latencyMs: chance.pick(canFail ? [0, 20, 100, 300] : [0, 20, 100]),
      phases: canFail ? phasesOf(theme, activeMs, chance) : [],
    }
  })
  const sources = isSteady ? SOURCES : chance.pick([SOURCES, ['web'], ['app']])
  return { name, isSteady, sources, secret: `${name}-secret-of-a-usual-length-0`, endpoints }
}

/** When an endpoint changes how it meets its requests. */
function phasesOf(theme, activeMs, chance) {
  const phases = []
  let at = 0
  for (let left = chance.between(0, 3); left > 0; left -= 1) {
    at += chance.between(0, activeMs / 3)
    phases.push({ at, mode: modeOf(theme, chance) })
    at += chance.between(1_000, activeMs / 3)
    phases.push({ at, mode: { kind: 'ok' } })
  }
  return phases
}

function modeOf(theme, chance) {
  if (chance.chance(theme.refusals ?? 0.1)) return { kind: 'status', status: 422, share: 1 }
  const share = chance.pick([1, 1, 0.5, 0.1])
  return chance.pick([
    { kind: 'status', status: 500, share },
    { kind: 'status', status: 503, share, retryAfter: chance.pick([undefined, 1, 5]) },
    { kind: 'throttle', perSecond: chance.pick([5, 20, 50]), retryAfter: 1 },
    ...['silence', 'closed', 'reset before', 'reset in', 'reset after'].map(always),
    ...['stored, reset', 'stored, cut reply', 'garbage'].map(always),
    { kind: 'late', ms: 5_500, share },
  ])
}

const always = (kind) => ({ kind, share: 1 })

function actsOf(theme, round, chance) {
  const { activeMs, isShort } = round
  const acts = []
  const gap = () => (isShort ? chance.between(500, 2_500) : chance.between(500, 6_000))
  for (let at = gap(); at < activeMs; at += gap()) {
    const kind = chance.pick(theme.acts)
    const own = actOf(kind, at, round, chance)
    acts.push(...own)
    // What fails before is due again after it.
    if (own[0].destination > 0 && chance.chance(0.4)) acts.push(...outageOf(own[0], chance))
    // Something is under way and waits when it happens.
    const isBulk = chance.chance(0.2)
    if (chance.chance(0.4))
      acts.push({
        at: at - chance.between(0, 300),
        do: 'burst',
        count: chance.between(50, 300),
        isBulk,
      })
  }
  return acts.sort((one, other) => one.at - other.at)
}

/** All endpoints of the destination of an act fail when it happens. */
const outageOf = ({ at, destination }, chance) => [
  { at: at - chance.between(500, 2_000), do: 'outage', destination },
  { at: at + chance.between(200, 1_000), do: 'recovery', destination },
]

/** One act, with the acts that undo or complete it. */
function actOf(kind, at, { isShort, count, workers }, chance) {
  const process = chance.between(0, workers - 1)
  // The first destination is never switched off, so that its messages have no excuse.
  const destination = chance.between(1, count - 1)
  const later = () => at + (isShort ? chance.between(3_000, 6_000) : chance.between(500, 15_000))
  // The process dies while it reads its settings.
  const killed = chance.chance(0.1) ? { killAfterMs: chance.between(0, 30) } : {}
  switch (kind) {
    case 'kill':
      return [{ at, do: kind, process, downMs: chance.pick([0, 0, 500, 3_000]) }]
    case 'restart':
      return [{ at, do: kind, process }]
    case 'suspend': {
      // Longer than a lease, so that another worker sends its messages.
      const isLong = !isShort && workers > 1 && chance.chance(0.2)
      const until = isLong ? at + chance.between(32_000, 40_000) : Math.min(later(), at + 8_000)
      return [
        { at, do: kind, process },
        { at: until, do: 'resume', process },
      ]
    }
    case 'disable':
      return [
        { at, do: kind, destination, ...killed },
        { at: later(), do: 'enable', destination },
      ]
    case 'remove':
      return [
        { at, do: kind, destination, ...killed },
        { at: later(), do: 'put back', destination },
      ]
    case 'rename':
      return [{ at, do: kind, destination, ...killed }]
    case 'headers':
      return [{ at, do: kind, destination: chance.between(0, count - 1), ...killed }]
    case 'limits': {
      const concurrency = chance.pick([4, 8, 40, 128])
      const rateLimit = chance.pick([undefined, undefined, 50])
      return [{ at, do: kind, destination, concurrency, rateLimit, ...killed }]
    }
    case 'rotate': {
      const one = later()
      return [
        { at, do: kind, destination, ...killed },
        { at: one, do: 'new secret', destination },
        { at: one + chance.between(100, 3_000), do: 'end of rotation', destination },
      ]
    }
    case 'slow disk':
      return [
        { at, do: kind, delayMs: chance.pick([20, 100, 300]) },
        { at: later(), do: 'fast disk' },
      ]
    case 'database':
      return [{ at, do: kind, downMs: chance.pick([0, 500, 2_000, 6_000]) }]
    case 'audience': {
      const members = Array.from({ length: MEMBERS }, (_, n) => n).filter(() => chance.chance(0.5))
      return [{ at, do: kind, audience: chance.pick(AUDIENCES), members }]
    }
    case 'deletion':
      return [{ at, do: kind, user: chance.between(0, USERS - 1) }]
    default:
      return [{ at, do: kind }]
  }
}
