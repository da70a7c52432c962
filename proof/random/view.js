// The records of a round, put together: who saw what, when, and what became of each message.
import { TRIES_BEFORE_OVERTAKEN } from './contract.js'
import { isRetryablePoison } from './model.js'

const FINAL = (status) =>
  status >= 300 && status !== 408 && status !== 429 && (status < 500 || status === 501)

/** What the answer to a request means by the contract. */
function verdictOf(request) {
  const { status, isAccepting, isTold, breaksOff, ids = [] } = request
  if (isAccepting) return isTold && !breaksOff ? 'accepted' : 'unclear'
  if (!isTold || status === undefined) return 'failed'
  if ((status === 413 || status === 400) && ids.length > 1) return 'split'
  return FINAL(status) ? 'refused' : 'failed'
}

/** The client's view of each request, joined to the endpoint's by the port and the order on it. */
function join(https, requests) {
  const onPort = new Map()
  for (const one of https) {
    const nth = (onPort.get(one.port) ?? 0) + 1
    onPort.set(one.port, nth)
    const seen = requests.find(({ port, nth: its }) => port === one.port && its === nth)
    if (!seen) continue
    seen.client = one
    one.seen = seen
  }
}

function outcomesOf(lines) {
  const outcomes = new Map()
  for (const line of lines) {
    if (line.kind !== 'outcome') continue
    const own = outcomes.get(line.id) ?? []
    outcomes.set(line.id, [...own, line])
  }
  return outcomes
}

/** The messages that were lost as callbacks and `onFailed` tell it. */
function lossesOf(of, outcomes) {
  const losses = new Map()
  for (const { at, code, status, ids } of of('failed'))
    for (const id of ids) losses.set(id, { id, at, code, status, by: 'onFailed' })
  for (const [id, [{ at, code, status }]] of outcomes)
    if (code && code !== 'spooled' && !losses.has(id))
      losses.set(id, { id, at, code, status, by: 'callback' })
  return [...losses.values()]
}

function callsOf(of) {
  const answers = new Map(of('answer').map((line) => [line.n, line]))
  return of('call').map((line) => ({ ...line, answer: answers.get(line.n) }))
}

/** `(node:1234) [code] Warning: text`; the hint on --trace-warnings is no warning of its own. */
const warningsIn = (stderr) => stderr.split('\n').filter((line) => /^\(node:\d+\)/.test(line))

function viewOf({ endpoint }, life, requests) {
  const { plan } = life
  const of = (kind) => life.lines.filter((line) => line.kind === kind)
  const outcomes = outcomesOf(life.lines)
  const https = of('http').sort((one, other) => one.from - other.from)
  join(https, requests)
  const stalls = [...of('stall'), ...endpoint.filter(({ kind }) => kind === 'stall')].filter(
    ({ from, until }) => !life.freezes.some((one) => from < one.until + 50 && one.from < until),
  )
  const stallMs = Math.max(0, ...stalls.map(({ from, until }) => until - from))
  const [exit] = of('exit')
  return {
    plan,
    life,
    of,
    outcomes,
    https,
    requests,
    losses: lossesOf(of, outcomes),
    calls: callsOf(of),
    books: of('books'),
    exit,
    finalBooks: exit?.books,
    made: of('calls').at(-1)?.to ?? 0,
    endedAt: of('ended')[0]?.at,
    isNatural: !['kill', 'exit'].includes(plan.end.how) && !life.isOverdue,
    warnings: warningsIn(life.stderr),
    otherWords: life.stderr
      .split('\n')
      .filter((line) => line && !/^\(node:\d+\)|^\(Use `node --trace-warnings/.test(line)),
    stallMs,
    /** How late anything may look because a process did not get its turn. */
    slackMs: 150 + 2 * stallMs,
    isFrozen: (from, until) => life.freezes.some((one) => from < one.until && one.from < until),
  }
}

/** One view for each life of a client, on the same endpoint. */
export function viewsOf(record) {
  const { plan, endpoint, lives } = record
  const requests = endpoint
    .filter(({ kind }) => kind === 'request')
    .sort((one, other) => one.n - other.n)
  const poison = new Set(plan.endpoint.poison?.ids)
  for (const request of requests) request.verdict = verdictOf(request)
  const lonelyFailures = requests.filter(
    ({ ids, verdict }) => ids?.length === 1 && verdict === 'failed',
  )
  // Alone and failed: from then on a message may be one that is isolated, by the client's right.
  const suspects = new Set(lonelyFailures.flatMap(({ ids }) => ids))
  const isIsolated = isolationOf(poison)
  const views = lives.map((life, number) => {
    // By the clock of the heir itself: who started it may learn of it later.
    const next = lives[number + 1]?.lines[0]?.at ?? Infinity
    const own = requests.filter(
      ({ from }) => from >= (number ? life.lines[0].at : 0) && from < next,
    )
    return Object.assign(viewOf(record, life, own), {
      isHeir: number > 0,
      everything: requests,
      isSuspect: (id) => suspects.has(id) || (poison.has(id) && isRetryablePoison(plan.endpoint)),
      isIsolated,
      hasSuspects: suspects.size > 0 || isRetryablePoison(plan.endpoint),
      phases: endpoint.filter(({ kind }) => kind === 'phase'),
    })
  })
  const last = views.at(-1)
  last.isFinished = last.finalBooks?.pending === 0 && views.at(-1).isNatural
  last.made = views[0].made
  last.allLosses = views.flatMap(({ losses }) => losses)
  last.lossesCounted = views.reduce(
    (total, { finalBooks }) => total + (finalBooks ? finalBooks.rejected + finalBooks.dropped : 0),
    0,
  )
  return views
}

/**
 * Whether a message may come late: it always fails, or it failed so often on its own that the client has tried the
 * messages behind it first.
 */
const isolationOf =
  (poison) =>
  (id, { ids, retryCount }) =>
    poison.has(id) || (ids.length === 1 && retryCount >= TRIES_BEFORE_OVERTAKEN)
