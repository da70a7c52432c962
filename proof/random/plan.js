// From a seed to a round: the client's options, its load, its calls, and the endpoint's behaviour, as plain data.
import { dice } from './prng.js'

/** How an endpoint can fail for some time. `endpoint.js` knows what each kind does. */
const RETRYABLE = [
  { kind: 'status', status: 500 },
  { kind: 'status', status: 503 },
  { kind: 'status', status: 408 },
  { kind: 'status', status: 502, isLarge: true },
  { kind: 'reset before' },
  { kind: 'reset in' },
  { kind: 'reset after' },
  { kind: 'hang' },
  { kind: 'down' },
  { kind: 'garbage' },
]
/** The endpoint stores the messages, and the client can't know. */
const LOST_ANSWERS = [
  { kind: 'stored, reset' },
  { kind: 'stored, hang' },
  { kind: 'stored, endless' },
  { kind: 'stored, short' },
  { kind: 'stored, bad gzip' },
  { kind: 'stored, large headers' },
  { kind: 'stored, huge headers' },
  { kind: 'stored, garbage' },
]
const FINAL = [401, 403, 404, 422, 302, 501]

const ONE_CLIENT = {
  flushAt: 20,
  flushAfter: 200,
  timeout: 1_000,
  onFailed: true,
  callbacks: 'all',
  gzip: false,
  spool: false,
}

function anyClient({ between, chance, pick }) {
  return {
    flushAt: pick([1, 7, 20, 20, 100, 500]),
    flushAfter: pick([50, 200, 1_000]),
    timeout: between(400, 1_500),
    onFailed: chance(0.6),
    callbacks: pick(['all', 'all', 'some', 'none']),
    gzip: chance(0.25),
    spool: chance(0.25),
    ...(chance(0.15) && { maxQueueBytes: between(60, 400) * 1_000 }),
    ...(chance(0.3) && { overflow: 'drop-oldest' }),
    ...(chance(0.1) && { maxRetries: between(1, 4) }),
    ...(chance(0.3) && { maxBatchBytes: between(40, 300) * 1_000 }),
  }
}

/** Calls in turns, `[atMs, count]`: some bursts over a steady rate. */
function anyLoad({ between, chance, pick }) {
  const turns = []
  const lastMs = between(200, 2_500)
  const perTurn = pick([0, 1, 3, 10, 25])
  for (let atMs = 0; atMs < lastMs && perTurn > 0; atMs += 50) turns.push([atMs, perTurn])
  const bursts = perTurn === 0 || chance(0.5) ? between(1, 3) : 0
  for (let burst = 0; burst < bursts; burst += 1)
    turns.push([between(0, lastMs), pick([1, 20, 50, 300, 1_000])])
  turns.sort(([one], [other]) => one - other)
  const bytes = pick([
    [180, 400],
    [180, 2_000],
    [300, 8_000],
  ])
  return { turns, bytes, isUnicode: chance(0.3) }
}

const steady = (perSecond, forMs) =>
  Array.from({ length: Math.ceil(forMs / 50) }, (_, turn) => [
    turn * 50,
    Math.max(1, Math.round(perSecond / 20)),
  ])

const burst = (count, bytes) => ({ turns: [[0, count]], bytes: [bytes, bytes], isUnicode: false })

function anyFault(chances) {
  const { between, chance, pick } = chances
  const share = pick([0.2, 0.5, 1, 1])
  if (chance(0.25)) return { ...pick(LOST_ANSWERS), share: Math.min(share, 0.5) }
  if (chance(0.2)) return { kind: 'hostile', share }
  if (chance(0.2))
    return { kind: 'status', status: pick([429, 503]), share, ...anyRetryAfter(chances) }
  if (chance(0.1)) return { kind: 'status', status: pick(FINAL), share }
  return { ...pick(RETRYABLE), share, latencyMs: between(0, 60) }
}

const anyRetryAfter = ({ between, chance }) => ({
  retryAfterS: between(1, 3),
  isDate: chance(0.3),
})

/** Faults, one after the other, and health at last. */
function anyPhases(chances) {
  const { between } = chances
  const phases = [{ atMs: 0, kind: 'ok' }]
  let atMs = between(0, 600)
  for (let fault = between(0, 3); fault > 0; fault -= 1) {
    phases.push({ atMs, ...anyFault(chances) })
    atMs += between(200, 1_500)
  }
  if (phases.length > 1) phases.push({ atMs, kind: 'ok' })
  return phases
}

function anyEndpoint(chances) {
  const { between, chance } = chances
  return {
    latencyMs: between(0, 120),
    msPerMessage: 0,
    storesWhatWasAborted: chance(0.5),
    phases: anyPhases(chances),
    ...(chance(0.15) && { limitBytes: between(34, 200) * 1_000 }),
    ...(chance(0.15) && { refusedEvery: between(5, 50) }),
  }
}

function anyCalls({ between, chance }) {
  const calls = []
  for (let call = chance(0.5) ? between(1, 4) : 0; call > 0; call -= 1)
    calls.push({ atMs: between(0, 3_000), ...(chance(0.5) && { timeout: between(10, 1_500) }) })
  return calls
}

function anyEnd({ between, chance, pick }, { spool }) {
  if (spool && chance(0.4)) return { how: pick(['kill', 'exit']) }
  if (chance(0.15)) return { how: 'close', timeout: between(0, 800) }
  return { how: pick(['close', 'close', 'flush', 'end']) }
}

function anyFreezes({ between, chance, pick }) {
  if (chance(0.8)) return []
  return [
    { who: pick(['client', 'endpoint']), atMs: between(100, 1_500), forMs: between(300, 2_500) },
  ]
}

function anyRound(chances) {
  const client = anyClient(chances)
  return {
    client,
    load: anyLoad(chances),
    calls: anyCalls(chances),
    endpoint: anyEndpoint(chances),
    freezes: anyFreezes(chances),
    end: anyEnd(chances, client),
  }
}

const plain = (more = {}) => ({
  client: { ...ONE_CLIENT },
  load: burst(100, 300),
  calls: [],
  endpoint: { latencyMs: 10, msPerMessage: 0, phases: [{ atMs: 0, kind: 'ok' }] },
  freezes: [],
  end: { how: 'close' },
  ...more,
})

/** An outage of everything between two times, and health after it. */
const outage = (fault, fromMs, toMs) => [
  { atMs: 0, kind: 'ok' },
  { atMs: fromMs, ...fault, share: 1 },
  { atMs: toMs, kind: 'ok' },
]

/** Each theme is a corner that rounds of pure chance rarely reach. */
export const THEMES = {
  any: anyRound,

  'a backlog that takes longer than the exit allows': (chances) => {
    const { between, chance, pick } = chances
    const isLarge = chance(0.5)
    const round = plain({
      load: isLarge ? burst(between(150, 220), 29_000) : burst(between(16_000, 24_000), 180),
      end: { how: pick(['close', 'flush', 'end', 'end']) },
    })
    round.endpoint.latencyMs = between(550, 900)
    Object.assign(round.client, { timeout: 2_500, spool: chance(0.3), callbacks: 'none' })
    if (round.end.how !== 'end' && chance(0.4)) round.load.gateBytes = 1_500_000
    if (chance(0.4)) {
      const fault = chance(0.5)
        ? { kind: 'status', status: 429, ...anyRetryAfter(chances), retryAfterS: between(5, 7) }
        : { kind: 'down' }
      round.endpoint.phases = outage(fault, 1_000, between(1_400, 6_500))
    }
    return round
  },

  // Longer than a script that nobody waits for would be held.
  'somebody waits through a long outage': ({ between, chance, pick }) => {
    const round = plain({
      load: burst(between(100, 2_000), 300),
      end: { how: pick(['close', 'flush']) },
    })
    const fault = pick([{ kind: 'down' }, { kind: 'reset in' }, { kind: 'status', status: 503 }])
    Object.assign(round.client, { timeout: 1_000, spool: chance(0.2) })
    round.endpoint.phases = outage(fault, 0, between(7_000, 10_000))
    return round
  },

  'a slow collector after an outage': ({ between, pick, chance }) => {
    const msPerMessage = between(2, 14)
    const round = plain({ load: { turns: steady(100, 1_000), bytes: [180, 400] } })
    round.load.turns.unshift([0, Math.round(between(2_000, 5_000) / msPerMessage)])
    round.client.timeout = between(500, 1_200)
    if (chance(0.5)) round.end = { how: 'rest', left: 0 }
    round.client.spool = chance(0.2)
    round.endpoint.msPerMessage = msPerMessage
    round.endpoint.storesWhatWasAborted = chance(0.8)
    round.endpoint.phases = outage(pick(RETRYABLE), 0, between(300, 1_500))
    return round
  },

  'a poison message': ({ between, chance, pick }) => {
    const count = between(60, 300)
    const round = plain({ load: { turns: steady(pick([100, 400]), 1_000), bytes: [180, 600] } })
    round.load.turns.unshift([0, count])
    round.client.flushAt = pick([1, 5, 20, 50])
    round.client.spool = chance(0.25)
    round.endpoint.poison = {
      ...pick([
        { kind: 'status', status: 500 },
        { kind: 'status', status: 503 },
        { kind: 'reset after' },
        { kind: 'stored, huge headers' },
      ]),
      ids: Array.from({ length: pick([1, 1, 2]) }, () => between(0, count)),
    }
    round.end = { how: 'rest', left: new Set(round.endpoint.poison.ids).size }
    return round
  },

  'refusals by content': ({ between, chance, pick }) => {
    const count = between(50, 800)
    const round = plain({ load: burst(count, between(180, 500)) })
    Object.assign(round.client, {
      flushAt: pick([1, 20, 200, 500]),
      onFailed: chance(0.5),
      gzip: chance(0.3),
    })
    if (chance(0.6)) {
      const [every, of] = pick([
        [3, 1],
        [20, 1],
        [20, 6],
        [100, 1],
        [100, 30],
      ])
      const from = between(0, 20)
      const ids = Array.from({ length: count }, (_, i) => i).filter((i) => (i + from) % every < of)
      round.endpoint.poison = { kind: 'status', status: pick([400, 400, 413]), ids }
    } else round.endpoint.refusedEvery = between(2, 40)
    if (chance(0.4)) round.endpoint.limitBytes = between(34, 90) * 1_000
    return round
  },

  'the same refusal for everything': ({ between, chance, pick }) => {
    const round = plain({ load: burst(between(40, 1_000), 250) })
    round.endpoint.phases = [
      { atMs: 0, kind: 'status', status: pick([400, 400, ...FINAL]), share: 1 },
    ]
    Object.assign(round.client, {
      flushAt: pick([1, 20, 200]),
      onFailed: chance(0.4),
      callbacks: pick(['all', 'none']),
    })
    round.end = { how: pick(['close', 'end', 'flush']) }
    return round
  },

  'hostile answers': ({ between, pick, chance }) => {
    const round = plain({ load: { turns: steady(200, 1_200), bytes: [180, 400] } })
    round.client.flushAt = pick([1, 5, 20])
    round.client.onFailed = chance(0.5)
    round.endpoint.phases = [
      { atMs: 0, kind: 'hostile', share: pick([0.3, 1]) },
      { atMs: between(600, 1_500), kind: 'ok' },
    ]
    return round
  },

  'answers that can’t be read': ({ between, pick, chance }) => {
    const round = plain({ load: { turns: steady(200, 1_200), bytes: [180, 400] } })
    round.client.flushAt = pick([1, 5, 20])
    round.client.timeout = pick([700, 10_000])
    const closing = ['stored, short', 'stored, reset', 'stored, bad gzip', 'stored, huge headers']
    const kinds = LOST_ANSWERS.filter(
      ({ kind }) => round.client.timeout < 10_000 || closing.includes(kind),
    )
    const share = pick([0.4, 1])
    round.endpoint.phases = [
      { atMs: 0, ...pick(kinds), share },
      { atMs: between(800, 1_500), kind: 'ok' },
    ]
    if (chance(0.2)) round.client.spool = true
    return round
  },

  'freeze and thaw': ({ between, pick, chance }) => {
    const round = plain({ load: { turns: steady(200, 1_500), bytes: [180, 400] } })
    round.client.timeout = between(400, 800)
    round.endpoint.latencyMs = between(60, 200)
    const forMs = round.client.timeout + between(300, 1_200)
    const freeze = () => ({ who: 'client', atMs: between(50, 1_200), forMs })
    round.freezes = [freeze()]
    if (chance(0.3)) round.freezes.push({ ...freeze(), atMs: between(3_500, 4_500) })
    if (chance(0.3)) round.freezes[0].who = 'endpoint'
    round.client.flushAt = pick([5, 20])
    return round
  },

  'a script that ends': (chances) => {
    const { between, pick, chance } = chances
    const round = plain({ load: burst(between(1, 200), 300), end: { how: 'end' } })
    const fault = chance(0.3)
      ? { kind: 'status', status: 429, ...anyRetryAfter(chances) }
      : pick(RETRYABLE)
    Object.assign(round.client, {
      timeout: pick([700, 2_000, 10_000]),
      onFailed: chance(0.5),
      spool: chance(0.2),
    })
    const comesBack = chance(0.4)
    round.endpoint.phases = comesBack
      ? outage(fault, between(0, 30), between(500, 3_000))
      : [{ atMs: 0, ...fault, share: 1 }]
    return round
  },

  'a spool and a death': (chances) => {
    const round = anyRound(chances)
    round.client.spool = true
    delete round.client.maxRetries
    round.end = { how: chances.pick(['kill', 'exit']) }
    return round
  },

  'an outage of everything': (chances) => {
    const { between, pick, chance } = chances
    const round = plain({ load: { turns: steady(pick([20, 200, 500]), 2_500), bytes: [180, 800] } })
    Object.assign(round.client, {
      flushAt: pick([1, 1, 20, 100]),
      spool: chance(0.2),
      timeout: between(300, 1_000),
      onFailed: chance(0.5),
    })
    if (chance(0.2)) round.client.maxQueueBytes = 100_000
    const fault = chance(0.3)
      ? { kind: 'status', status: 503, ...anyRetryAfter(chances) }
      : pick(RETRYABLE)
    round.endpoint.phases = outage(fault, between(0, 800), between(2_500, 6_000))
    round.calls = anyCalls(chances)
    return round
  },
}

const NAMES = Object.keys(THEMES)

/** The round of a seed. Seeds that follow each other go through all themes. */
export function planOf(seed) {
  const theme = NAMES[seed % NAMES.length]
  return { seed, theme, ...THEMES[theme](dice(seed)) }
}

/** The first seeds, from one on, whose rounds have this theme. */
export function seedsOf(theme, count, from = 0) {
  const first = Math.ceil(from / NAMES.length) * NAMES.length + NAMES.indexOf(theme)
  return Array.from({ length: count }, (_, i) => first + i * NAMES.length)
}
