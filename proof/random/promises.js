// The promises, and how the records of a round show that one was broken. Each check gives a sentence for each breach.
import * as contract from './contract.js'
import { isRetryablePoison, mostStores } from './model.js'

const ms = (time) => `${Math.round(time)} ms`
const some = (ids) =>
  `${ids.slice(0, 5).join(', ')}${ids.length > 5 ? ` and ${ids.length - 5} more` : ''}`
const sum = (numbers) => numbers.reduce((total, one) => total + one, 0)
/** Callbacks and results that belong together are written down in one turn, or nearly. */
const TURN_MS = 25
/** A process that has nothing to do needs this to end. */
const LEAVE_MS = 500

const withCallback = ({ plan, made, isHeir }) => {
  const { callbacks } = plan.client
  const ids = isHeir || callbacks === 'none' ? [] : Array.from({ length: made }, (_, id) => id)
  return callbacks === 'some' ? ids.filter((id) => id % 3 === 0) : ids
}
const isToldAll = ({ plan, isHeir }) => plan.client.callbacks === 'all' && !isHeir

function books(view) {
  const { plan, outcomes, books, of, finalBooks, losses, isNatural } = view
  const wrong = books.filter(({ isRight }) => !isRight)
  const twice = [...outcomes].filter(([, all]) => all.length > 1).map(([id]) => id)
  const faults = [
    wrong.length > 0 && `the books are wrong: ${JSON.stringify(wrong[0])}`,
    twice.length > 0 && `callbacks called twice: ${some(twice)}`,
    ...of('thrown').map(({ id, error }) => `the call of ${id} threw ${error}`),
  ]
  if (!isNatural || !finalBooks) return faults
  const silent = withCallback(view).filter((id) => !outcomes.has(id))
  const lost = finalBooks.rejected + finalBooks.dropped
  const told = sum(of('delivered').map(({ messages }) => messages))
  const kept = plan.client.spool ? finalBooks.pending : 0
  return [
    ...faults,
    silent.length > 0 && kept === 0 && `no callback for ${some(silent)}`,
    finalBooks.pending !== kept && `${finalBooks.pending} still pending at the end`,
    told !== finalBooks.delivered &&
      `${finalBooks.delivered} delivered, ${told} told to onDelivered`,
    (plan.client.onFailed || isToldAll(view)) &&
      losses.length !== lost &&
      `${lost} lost by the books, ${losses.length} reported`,
  ]
}

const isTimedOut = ({ at, timeout = Infinity, answer }) => answer.at - at >= timeout - 2

/** The results of `flush` and `close` are what was told otherwise. */
function results(view) {
  const { plan, calls, outcomes, losses, exit, isNatural, slackMs, isFrozen, isHeir } = view
  const closedAt = calls.find(({ name, answer }) => name === 'close' && answer)?.answer.at
  return calls.flatMap((call) => {
    // A closed client has nothing to flush, whatever its spool keeps.
    if (call.at > closedAt) return []
    const { n, name, at, made, timeout = Infinity, books, answer } = call
    const title = `${name}(${timeout === Infinity ? '' : timeout}) number ${n}`
    if (!answer) return isNatural && exit ? [`${title} had no answer when the process ended`] : []
    const { delivered, failed } = answer.result
    const tookMs = answer.at - at
    const isLate = tookMs > timeout + slackMs && !isFrozen(at, answer.at)
    const faults = [isLate && `${title} took ${ms(tookMs)}`]
    // close() ends the wait of others for what a spool keeps.
    const isKept = plan.client.spool && answer.at >= closedAt - TURN_MS
    const isWhole = !isTimedOut(call) && !(isKept && name === 'flush')
    const early = isToldAll(view)
      ? [...Array(made).keys()].filter((id) => !(outcomes.get(id)?.[0].at <= answer.at + TURN_MS))
      : []
    if (isWhole && early.length > 0)
      faults.push(`${title} answered before ${some(early)} had outcomes`)
    if (isWhole && name === 'flush' && delivered + failed !== books.pending)
      faults.push(`${title} waited for ${books.pending}, and gave ${JSON.stringify(answer.result)}`)
    const told = losses.filter(
      ({ id, at: lostAt }) => (isHeir || id < made) && lostAt <= answer.at + TURN_MS,
    )
    // What did not fit into the queue never waited for this flush, and may be told after it began.
    const since = told.filter(
      ({ at: lostAt, code }) => lostAt >= at && code !== 'queue_full',
    ).length
    const isKnown = plan.client.onFailed || isToldAll(view)
    const wanted = name === 'close' ? told.length : since
    const mayDrop = name === 'flush' && plan.client.overflow === 'drop-oldest'
    if (isKnown && isWhole && failed !== wanted && !(mayDrop && failed > wanted))
      faults.push(`${title} gave failed: ${failed}; ${wanted} were reported`)
    if (name === 'close' && delivered !== answer.books.delivered)
      faults.push(`${title} gave delivered: ${delivered}; the books say ${answer.books.delivered}`)
    return faults
  })
}

/** Ids that were in a request which shows a condition. */
function idsWhere(requests, condition) {
  const ids = new Set()
  for (const request of requests)
    for (const id of request.ids ?? []) if (condition(request, id)) ids.add(id)
  return ids
}

const isRefusedIn = ({ verdict, rejects, mayReject }, id) =>
  verdict === 'refused' || rejects?.includes(id) || mayReject?.includes(id)
const isAcceptedIn = ({ isAccepting, rejects }, id) => isAccepting && !rejects?.includes(id)

function truth(view) {
  const { everything, outcomes, finalBooks, isHeir, made } = view
  const { isFinished, lossesCounted, allLosses } = view
  const accepted = idsWhere(everything, isAcceptedIn)
  const stored = idsWhere(
    everything,
    ({ storedAt, rejects }, id) => storedAt && !rejects?.includes(id),
  )
  const lies = [...outcomes]
    .filter(([id, [{ code }]]) => !code && !accepted.has(id))
    .map(([id]) => id)
  const faults = [
    lies.length > 0 && `reported delivered and never accepted: ${some(lies)}`,
    !isHeir &&
      finalBooks?.delivered > accepted.size &&
      `${finalBooks.delivered} delivered by the books, ${accepted.size} accepted by the endpoint`,
  ]
  if (!isFinished) return faults
  // The last life is over, and nothing is left anywhere: what is not here is lost. An heir has no callbacks, and
  // perhaps no onFailed: what it lost is only counted.
  const lost = new Set(allLosses.map(({ id }) => id))
  const refused = idsWhere(everything, isRefusedIn)
  const missing = [...Array(made).keys()].filter(
    (id) => !stored.has(id) && !lost.has(id) && !refused.has(id),
  )
  if (missing.length > Math.max(0, lossesCounted - lost.size))
    faults.push(`lost without a report: ${some(missing)}`)
  return faults
}

/** Whether so many single messages had been refused that the rest of the batch need not be tried. */
function isHopeless(everything, { n, status }) {
  const hasAccepted = everything.some((one) => one.n < n && one.verdict === 'accepted')
  const most = hasAccepted ? contract.SAME_REFUSALS_ONCE_ACCEPTED : contract.SAME_REFUSALS
  const alone = everything.filter((one) => one.status === status && one.ids?.length === 1)
  return alone.length >= most
}

/** Why a message may be lost. Everything else is a loss of what the endpoint would have taken. */
const MAY_BE_LOST = {
  rejected({ everything }, { id, status }) {
    return everything.some((request) => {
      if (!request.ids?.includes(id)) return false
      if (request.rejects?.includes(id) || request.mayReject?.includes(id)) return true
      if (request.status !== status) return false
      return !request.isPoison || request.ids.length === 1 || isHopeless(everything, request)
    })
  },
  queue_full({ plan, books }) {
    const most = Math.max(...books.map(({ pendingBytes }) => pendingBytes))
    return !plan.client.spool && most > (plan.client.maxQueueBytes ?? 64 * 2 ** 20) - 70_000
  },
  close_timeout({ calls, isSuspect, plan }, { at, id }) {
    if (plan.end.how === 'rest' && !isSuspect(id)) return false
    return calls.some(
      ({ name, at: from, timeout = Infinity }) => name === 'close' && at - from >= timeout - 2,
    )
  },
  process_exit: (view, loss) => stuckMs(view, loss.at) >= contract.EXIT_MS - view.slackMs,
  retries_exhausted({ plan, everything, https, isSuspect }, { id }) {
    if (plan.client.maxRetries === undefined) return isSuspect(id)
    const failed = everything.filter(
      ({ ids, verdict }) => ids?.includes(id) && verdict !== 'accepted',
    )
    const unseen = https.filter(({ seen }) => !seen?.ids)
    return failed.length + unseen.length > plan.client.maxRetries
  },
}

/**
 * How long a script that has ended has made no progress at a time: none at all while somebody waits for a flush, or
 * while the endpoint has asked to wait.
 */
function stuckMs({ calls, requests, endedAt }, at) {
  const isAwaited = calls.some(
    (call) =>
      call.at < at - 1 && !(call.answer?.at < at - TURN_MS) && !(at >= call.at + call.timeout - 2),
  )
  const isAsked = requests.some(
    ({ until, retryAfterS, isDate }) =>
      until < at && at < until + 1_000 * (retryAfterS - (isDate ? 1 : 0)) - TURN_MS,
  )
  if (isAwaited || isAsked || endedAt === undefined) return 0
  const progress = requests.filter(
    ({ verdict, until }) => until < at && ['accepted', 'refused', 'split'].includes(verdict),
  )
  const since = [
    endedAt,
    ...calls.map((call) => call.answer?.at).filter((time) => time < at - TURN_MS),
    ...progress.map(({ until }) => until),
  ]
  return at - Math.max(...since)
}

function loss(view) {
  const { losses, finalBooks, plan, isNatural, exit } = view
  const wrong = losses.filter((one) => !MAY_BE_LOST[one.code]?.(view, one))
  const codes = [...new Set(wrong.map(({ code, status = '' }) => `${code} ${status}`.trim()))]
  const faults = codes.map((kind) => {
    const ids = wrong.filter(({ code, status = '' }) => `${code} ${status}`.trim() === kind)
    return `lost as ${kind} without a reason: ${some(ids.map(({ id }) => id))}`
  })
  const { maxQueueBytes, maxRetries, onFailed, callbacks } = plan.client
  const isUntold = !onFailed && callbacks !== 'all' && isNatural
  if (
    !isUntold ||
    !finalBooks?.dropped ||
    maxQueueBytes ||
    maxRetries ||
    isRetryablePoison(plan.endpoint)
  )
    return faults
  const mayDrop = plan.end.timeout !== undefined || MAY_BE_LOST.process_exit(view, { at: exit.at })
  return mayDrop ? faults : [...faults, `${finalBooks.dropped} dropped without a reason`]
}

/**
 * Messages are first stored in the order of their calls, but for those that were isolated, and for the last one of a batch that is
 * tried after many single messages got the same 400: it shows whether the endpoint takes any.
 */
function order({ plan, everything, isIsolated, isHeir }) {
  if (plan.client.flushAt === 1 || isHeir) return []
  let last = -1
  const seen = new Set()
  const stored = everything.filter(({ storedAt }) => storedAt)
  for (const { n, ids, retryCount } of stored.sort((one, other) => one.storedAt - other.storedAt)) {
    if (ids.length === 1 && isAfterRefusals(everything, n)) continue
    for (const id of ids) {
      if (seen.has(id) || isIsolated(id, { ids, retryCount })) continue
      seen.add(id)
      if (id < last) return [`request ${n} brings message ${id} after ${last}`]
      last = id
    }
  }
  return []
}

/** Whether the requests right before this one were single messages that all got a 400. */
function isAfterRefusals(everything, n) {
  const before = everything.filter((one) => one.n < n && one.ids?.length === 1)
  const last = before.sort((one, other) => one.n - other.n).slice(-contract.SAME_REFUSALS)
  return last.length === contract.SAME_REFUSALS && last.every(({ status }) => status === 400)
}

/** Whether an answer was there before the client may give up: also one that came while it was frozen. */
function isInTime({ client, until, isTold, verdict }, { plan, life, slackMs }) {
  if (!isTold || !client || !['accepted', 'refused'].includes(verdict)) return false
  const thaw = life.freezes.find(
    (one) => one.who === 'client' && one.from < until && until < one.until - TURN_MS,
  )
  const isFast = until - client.from < plan.client.timeout - slackMs
  return isFast || (thaw && thaw.from < client.from + plan.client.timeout)
}

function repeats(view) {
  const { requests, plan, phases, isSuspect } = view
  const doneWith = new Map()
  const faults = []
  const stores = new Map()
  const stableFrom = phases.at(-1)?.phase === 'ok' ? phases.at(-1).at : Infinity
  const byStart = requests.filter(({ ids, client }) => ids && client)
  byStart.sort((one, other) => one.client.from - other.client.from)
  for (const request of byStart) {
    const again = request.ids.filter((id) => doneWith.get(id)?.client.until < request.client.from)
    if (again.length > 0 && faults.length === 0) {
      const first = doneWith.get(again[0])
      const frozen = view.isFrozen(first.client.from, first.client.until)
        ? ' (frozen meanwhile)'
        : ''
      faults.push(
        `request ${request.n} sends ${some(again)} again, which request ${first.n} had answered${frozen}`,
      )
    }
    // An answer that is long, and begins with what is refused, may not be read to its end in time: then it is lost.
    const isRead = isInTime(request, view) && !request.mayReject?.length
    if (isRead) for (const id of request.ids) doneWith.set(id, request)
    if (!(request.storedAt > stableFrom)) continue
    for (const id of request.ids) stores.set(id, (stores.get(id) ?? 0) + 1)
  }
  const most = ([id]) => (isSuspect(id) ? contract.MOST_TRIES : mostStores(plan))
  const often = [...stores].filter(([id, count]) => count > most([id]))
  if (often.length > 0)
    faults.push(
      `${often.length} messages stored up to ${Math.max(...often.map(([, count]) => count))} times`,
    )
  return faults
}

function bodies({ plan, requests, of }) {
  const limit = Math.min(contract.MAX_BODY_BYTES, of('options')[0]?.maxBatchBytes ?? Infinity)
  return requests.flatMap(({ n, bytes, ids, method, problem, isGzip }) => [
    problem && `request ${n} can't be read: ${problem}`,
    bytes > limit && `request ${n} has ${bytes} bytes`,
    ids?.length > contract.MAX_BODY_MESSAGES && `request ${n} has ${ids.length} messages`,
    ids?.length === 0 && `request ${n} is empty`,
    method !== 'POST' && `request ${n} is a ${method}`,
    ids && isGzip !== plan.client.gzip && `request ${n}: gzip is ${isGzip}`,
  ])
}

const isFailed = ({ seen }) => (seen?.verdict ?? 'failed') === 'failed'

/** Begins and ends of requests in order. */
const inOrder = (spans) =>
  spans
    .flatMap(({ from, until, one }) => [
      { at: from, isBegin: true, one },
      { at: until, isBegin: false, one },
    ])
    .sort((one, other) => one.at - other.at || one.isBegin - other.isBegin)

/** How many requests both sides saw under way at a time: each side alone notices an end late. */
function inFlight({ plan, hasSuspects, https }) {
  const most = (plan.client.flushAt === 1 ? contract.SINGLES_IN_FLIGHT : 1) + (hasSuspects ? 1 : 0)
  const seen = https.filter((one) => one.seen)
  const spans = seen.map((one) => ({
    from: Math.max(one.from, one.seen.from),
    until: Math.min(one.until - TURN_MS, one.seen.until ?? Infinity),
  }))
  let open = 0
  let mostOpen = 0
  for (const { isBegin } of inOrder(spans.filter(({ from, until }) => from < until))) {
    open += isBegin ? 1 : -1
    mostOpen = Math.max(mostOpen, open)
  }
  return mostOpen > most && `${mostOpen} requests in flight`
}

/** All requests of the client; a success may be known to it a little before Node tells of its end. */
function spansOf({ https, of }) {
  const ended = new Set(https.map(({ n }) => n))
  const open = of('http begins').filter(({ n }) => !ended.has(n))
  return [
    ...open.map(({ at }) => ({ from: at, until: Infinity, one: {} })),
    ...https.map((one) => ({
      from: one.from,
      until: one.until - (isFailed(one) ? 0 : TURN_MS),
      one,
    })),
  ]
}

/** How many requests an endpoint sees that fails for everything, from the first failure to the next success. */
function probing(view) {
  const { inMs, count } = contract.PROBES
  // A client that is closed, and a script that ends, try at once, and their waits start over.
  const startsOver = [...view.calls.filter(({ name }) => name === 'close'), ...view.of('idle')]
    .map(({ at }) => at)
    .sort((one, other) => one - other)
  // A message that fails beside others in flight is no outage, though none of them may end for a moment.
  const beside = view.plan.client.flushAt === 1 ? contract.SINGLES_IN_FLIGHT : 2
  const most = count + (view.hasSuspects ? beside : 0)
  let isFailing = false
  let succeededAt = 0
  let probes = []
  let mostProbes = 0
  for (const { at, isBegin, one } of inOrder(spansOf(view))) {
    if (!isBegin) {
      isFailing = isFailed(one)
      if (isFailing) continue
      probes = []
      succeededAt = at
      // Of several in flight, one may succeed and let others start just before the next one fails.
    } else if (isFailing && at - succeededAt > 2 * TURN_MS + view.stallMs) {
      const since = Math.max(
        at - inMs + view.slackMs,
        startsOver.findLast((time) => time <= at) ?? 0,
      )
      probes = [...probes.filter((time) => time > since), at]
      mostProbes = Math.max(mostProbes, probes.length)
    }
  }
  return mostProbes > most && `${mostProbes} requests within 5 s of an outage`
}

const pressure = (view) => [inFlight(view), probing(view), ...tooSoon(view)]

/** Requests that start before the time that a `Retry-After` asked for. */
function tooSoon({ requests, https, slackMs }) {
  return requests.flatMap(({ n, client, until, retryAfterS, isDate, isTold }) => {
    if (!retryAfterS || !isTold || !client) return []
    const dueAt =
      until + 1_000 * Math.min(retryAfterS - (isDate ? 1 : 0), contract.MAX_RETRY_AFTER_MS)
    const early = https.find(({ from }) => from > client.until + 5 && from < dueAt - slackMs)
    return early
      ? [`a request ${ms(early.from - until)} after request ${n} asked for ${retryAfterS} s`]
      : []
  })
}

/** What a 400 for everything costs: the way down to a few single messages, for each batch. */
function refusals({ plan, requests, losses, finalBooks }) {
  const all = requests.filter(({ status, isPoison }) => status === 400 && !isPoison)
  if (all.length === 0 || plan.endpoint.phases.some(({ kind }) => kind !== 'status')) return []
  const lost = Math.max(losses.length, finalBooks?.rejected ?? 0)
  const { flushAt } = plan.client
  const batches = lost / flushAt + plan.load.turns.length + plan.calls.length + 1
  const most =
    flushAt === 1 ? lost : Math.ceil(batches * (Math.log2(flushAt) + contract.SAME_REFUSALS + 2))
  return all.length > most
    ? [`${all.length} requests to learn that everything is a 400, for ${lost} messages`]
    : []
}

/** After a failure the client goes on at the documented pace, and notices at once that a connection is gone. */
function pace(view) {
  const { https, isSuspect, slackMs, isFrozen, life, of, outcomes, calls } = view
  const closedAt =
    calls.find(({ name, answer }) => name === 'close' && answer)?.answer.at ?? Infinity
  const signs = [
    ...of('http begins'),
    ...of('delivered'),
    ...of('failed'),
    ...[...outcomes.values()].map(([first]) => first),
  ]
    .map(({ at }) => at)
    .sort((one, other) => one - other)
  let failures = 0
  const faults = []
  for (const one of https) {
    const { seen } = one
    const isUnclear = seen?.verdict === 'unclear'
    if (!isUnclear && !isFailed(one)) failures = 0
    if (!isUnclear && !isFailed(one)) continue
    failures += 1
    const endedAt = seen?.cutAt ?? one.until
    const waitMs = contract.longestWaitMs(failures)
    const dueAt = endedAt + waitMs + 1_000 * (seen?.retryAfterS ?? 0)
    if (seen?.ids?.length === 1 && isSuspect(seen.ids[0])) continue
    if (seen?.retryAfterS || isFrozen(one.from, dueAt)) continue
    const next = signs.find((at) => at > endedAt) ?? Math.min(life.exitedAt, closedAt)
    const lateMs = Math.min(next, closedAt, life.exitedAt) - dueAt
    if (lateMs > slackMs + 300)
      faults.push(
        `nothing for ${ms(next - endedAt)} after ${seen ? `request ${seen.n} (${seen.action})` : 'no connection'}, failure ${failures} in a row`,
      )
  }
  return faults.slice(0, 1)
}

function end(view) {
  const { plan, life, exit, books, calls, endedAt, isNatural, slackMs, requests, outcomes, of } =
    view
  if (life.isOverdue)
    return [`not over after ${ms(life.mostMs)}, with ${books.at(-1)?.pending} messages pending`]
  const wanted = plan.end.how === 'kill' ? 'SIGKILL' : 0
  const faults = [
    (life.killedBy ?? life.code) !== wanted &&
      `the process ended with ${life.killedBy ?? life.code}`,
    ...view.otherWords
      .slice(0, 1)
      .map(
        (line) =>
          `on stderr: ${view.otherWords.find((other) => /^\s*\w*Error/.test(other)) ?? line}`,
      ),
  ]
  if (!isNatural || !exit || !endedAt) return faults
  const asked = requests.flatMap(({ retryAfterS, until }) =>
    retryAfterS ? [until + 1_000 * retryAfterS] : [],
  )
  const last = Math.max(
    endedAt,
    ...calls.flatMap(({ at, answer }) => [at, answer?.at ?? 0]),
    ...of('delivered').map(({ at }) => at),
    ...[...outcomes.values()].map(([{ at, code }]) => (code === 'process_exit' ? 0 : at)),
    ...of('failed').map(({ at, code }) => (code === 'process_exit' ? 0 : at)),
  )
  const hasGivenUp = exit.books.pending > 0 || exit.books.dropped > 0
  const isClosed = calls.some(({ name }) => name === 'close')
  const bound = hasGivenUp && !isClosed ? Math.max(last, ...asked) + contract.EXIT_MS : last
  const lateMs = life.exitedAt - bound - LEAVE_MS - slackMs
  if (lateMs > 0 && !view.isFrozen(last, life.exitedAt))
    faults.push(`the process ended ${ms(life.exitedAt - last)} after the last that it did`)
  return faults
}

function silence(view) {
  const { plan, warnings, losses, finalBooks, isNatural } = view
  if (!isNatural || !finalBooks) return []
  if (plan.client.onFailed)
    return warnings.length > 0 ? [`a warning in spite of onFailed: ${warnings[0]}`] : []
  const lost = finalBooks.rejected + finalBooks.dropped
  if (lost === 0) return warnings.length > 0 ? [`a warning without a loss: ${warnings[0]}`] : []
  if (warnings.length === 0) return [`${lost} lost, and not a word of it`]
  const codes = new Set(losses.map(({ code }) => code))
  const kinds = new Set(losses.map(({ code, status }) => `${code} ${status}`))
  if (!isToldAll(view)) return []
  return warnings.length < codes.size || warnings.length > kinds.size
    ? [`${warnings.length} warnings for ${kinds.size} kinds of loss: ${[...kinds].join(', ')}`]
    : []
}

/** In the order in which a breach is best understood. */
const PROMISES = [
  ['the process ends in time and is never taken down', end],
  ['the books are right, and each callback is called once', books],
  ['flush() and close() wait and tell the truth', results],
  ['what is reported delivered was accepted, and nothing is lost without a report', truth],
  ['nothing is lost that the endpoint takes', loss],
  ['messages arrive in the order of their calls', order],
  ['only what was not answered is sent again, and not for ever', repeats],
  ['bodies keep to their limits', bodies],
  ['the endpoint is spared', pressure],
  ['a refusal of everything is found out quickly', refusals],
  ['the client goes on after a failure as documented', pace],
  ['each kind of loss is told once', silence],
]

/** All breaches of a round: `{ promise, fault }`. */
export function breachesIn(views) {
  return views.flatMap((view) =>
    PROMISES.flatMap(([promise, check]) =>
      check(view)
        .filter(Boolean)
        .map((fault) => ({ promise, fault: view.isHeir ? `the heir: ${fault}` : fault })),
    ),
  )
}
