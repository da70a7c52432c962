// Knows what may happen in a round, and compares it with what the endpoints recorded and what the destination says.

/** An answer is on disk by then. A process that died before may send again what was answered. */
const SETTLED_MS = 1_500
/** A request may be under way for so long: the 5 s of the destination, and what a busy machine adds. */
const UNDER_WAY_MS = 6_000
/** A request begins so long after its process had other settings: both are looked at from outside. */
const BEGIN_MS = 1_500
/** The destination gives up after 5 s. An answer that took nearly as long may have come too late. */
const TIMELY_MS = 4_000
/** A healthy endpoint with room gets a message in this time. */
const PROMPT_MS = 15_000
/** When a worker joins, the others make room in 5 s. */
const JOINING_MS = 8_000
const RATE_WINDOW_MS = 5_000
/** A process keeps the unused requests of 0.3 s, and the network adds what it delays. */
const RATE_SLACK_MS = 1_500
/** What endpoints refuse messages with. A 401 is never the end: one of the secrets is right. */
const REFUSAL = 422
/** The share of requests that may arrive so late that their answer is too late. */
const MOST_LATE = 0.01
const MOST_MB = 400
/** So many of the same breach are listed. */
const MOST_LISTED = 3

/** @returns {Promise<[promise: string, fault: string][]>} */
export async function judge(round) {
  const seen = indexOf(round)
  const faults = []
  for (const [promise, check] of Object.entries(CHECKS)) {
    const found = []
    for await (const what of check(round, seen)) found.push(what)
    faults.push(...found.slice(0, MOST_LISTED).map((what) => [promise, what]))
    if (found.length > MOST_LISTED) faults.push([promise, `and ${found.length - MOST_LISTED} more`])
  }
  return faults
}

/** The requests by message, and what each message may expect. */
function indexOf({ records, settings, load }) {
  const byMessage = new Map()
  for (const record of records) {
    if (record.id === undefined) continue
    const key = `${record.destination} ${record.id}`
    const own = byMessage.get(key)
    if (own) own.push(record)
    else byMessage.set(key, [record])
  }
  const calls = load.batches.flatMap((batch) => {
    const routes = routesOf(settings, batch)
    return batch.calls.map(({ messageId, userId, event }) => ({
      ...{ messageId, userId, batch, routes, isPoison: event === 'poison' },
      mayBeGone: load.deletions.some(
        ({ user, answeredAt }) => user === userId && batch.sentAt <= answeredAt,
      ),
    }))
  })
  return { byMessage, calls, callsById: new Map(calls.map((call) => [call.messageId, call])) }
}

/** Which destinations a call must reach, and which it may reach: those of all settings of its time, and of any. */
function routesOf({ between }, { source, sentAt, answeredAt }) {
  const versions = between(sentAt, answeredAt).map(({ destinations }) =>
    namesFor(source, destinations),
  )
  const may = new Set(versions.flatMap((names) => [...names]))
  return {
    may,
    must: new Set([...may].filter((name) => versions.every((names) => names.has(name)))),
  }
}

const namesFor = (source, destinations) =>
  new Set(
    destinations.flatMap(({ name, sources, isEnabled }) =>
      isEnabled && sources.includes(source) ? [name] : [],
    ),
  )

const isTaken = ({ fate }) => fate === 'ok' || String(fate).startsWith('stored')
const isAnswered = ({ fate, isWhole, at, endAt }) =>
  fate === 'ok' && isWhole && endAt - at < TIMELY_MS
const told = ({ inSeconds }, { destination, id, attempt, at }) =>
  `${id} for ${destination}, attempt ${attempt} at ${inSeconds(at)}`

const CHECKS = {
  *'nothing is lost'({ stored }, { calls, byMessage }) {
    const states = new Map(stored.map((one) => [`${one.destination} ${one.messageId}`, one.state]))
    for (const { messageId, routes, mayBeGone } of calls) {
      for (const name of mayBeGone ? [] : routes.must) {
        const key = `${name} ${messageId}`
        if (!states.has(key)) yield `${messageId} was answered 200, and is not stored for ${name}`
        else if (!byMessage.get(key)?.some(isTaken))
          yield `${messageId} is ${states.get(key)}, but ${name} did not take it`
        else if (states.get(key) !== 'done')
          yield `${messageId} is ${states.get(key)}, but ${name} took it`
      }
    }
  },

  *'nothing else is sent'({ stored }, { byMessage, callsById }) {
    for (const [key, [record]] of byMessage) {
      const call = callsById.get(record.id)
      if (call && !call.routes.may.has(record.destination) && !isFormer(record.destination, call))
        yield `${key} was sent, but was not for this destination`
    }
    for (const { destination, messageId, state } of stored) {
      const call = callsById.get(messageId)
      if (call && state !== 'skipped' && !call.routes.may.has(destination))
        yield `${messageId} is ${state} for ${destination}, but was not for it`
    }
  },

  *signatures(round) {
    const { records, settings } = round
    for (const record of records) {
      if (record.id === undefined) continue
      const { secret, destination, at } = record
      const valid = settings
        .between(at - UNDER_WAY_MS, at)
        .flatMap(({ destinations }) => destinations.filter(({ name }) => name === destination))
      if (!valid.some(({ secrets }) => secrets.includes(secret)))
        yield `${told(round, record)}: the signature is of ${secret ?? 'none of the secrets'}, which is not of this time`
    }
  },

  *settings(round) {
    const { records, settings } = round
    for (const record of records) {
      const { destination, at } = record
      const isOn = settings
        .between(at - BEGIN_MS, at)
        .some(({ destinations }) =>
          destinations.some(({ name, isEnabled }) => name === destination && isEnabled),
        )
      if (!isOn) yield `${told(round, record)}: this destination is switched off`
    }
  },

  *concurrency(round) {
    for (const [endpoint, own] of byEndpoint(round.records)) {
      const line = own.flatMap(({ at, endAt }) => [
        { at, step: 1 },
        // A destination that has given up counts its request no longer, but does not say so at once.
        { at: Math.min(endAt, at + TIMELY_MS), step: -1 },
      ])
      let inFlight = 0
      for (const { at, step } of line.sort(
        (one, other) => one.at - other.at || one.step - other.step,
      )) {
        inFlight += step
        const most = step > 0 ? mostAtOnce(round, endpoint, at) : Infinity
        if (inFlight > most)
          yield `endpoint ${endpoint} has ${inFlight} requests at ${round.inSeconds(at)}, ${most} may be`
      }
    }
  },

  *'rate limits'(round) {
    for (const [endpoint, own] of byEndpoint(round.records)) {
      const times = own.map(({ at }) => at).sort((one, other) => one - other)
      let first = 0
      for (const [n, at] of times.entries()) {
        while (times[first] < at - RATE_WINDOW_MS) first += 1
        const most = mostInWindow(round, endpoint, at)
        if (n - first + 1 > most)
          yield `endpoint ${endpoint} got ${n - first + 1} requests in 5 s at ${round.inSeconds(at)}, ${most} may be`
      }
    }
  },

  *'nothing is late'(round, { calls, byMessage }) {
    const { plan, service } = round
    const [steady] = plan.destinations
    for (const { messageId, batch, routes, isPoison, mayBeGone } of calls) {
      const names = batch.isCalm ? routes.must : [steady.name]
      if (isPoison || mayBeGone || (batch.isBulk && !batch.isCalm)) continue
      for (const name of names) {
        if (!routes.must.has(name)) continue
        const first = byMessage.get(`${name} ${messageId}`)?.find(isTaken)
        if (!first) continue // It is lost, which another check finds.
        const lateMs = first.at - batch.storedAt - excusedMs(service, batch.storedAt, first.at)
        if (lateMs > PROMPT_MS + service.starvedMs(batch.storedAt, first.at))
          yield `${messageId} was accepted at ${round.inSeconds(batch.storedAt)}, and reached ${name} ${Math.round(lateMs)} ms after it could have: ${told(round, first)}`
      }
    }
  },

  async *'nothing is sent again'(round, { byMessage, callsById }) {
    const late = []
    let repeats = 0
    for (const own of byMessage.values()) {
      if (callsById.get(own[0].id)?.mayBeGone) continue
      for (const [n, one] of own.entries()) {
        const again = own.slice(n + 1).find(({ endpoint }) => endpoint === one.endpoint)
        if (!again || !isAnswered(one)) continue
        repeats += 1
        if (isExcused(round, one.at, attemptEnd(round, one, own))) continue
        const outcome = await outcomeOf(round, one)
        // The 5 s of an attempt begin before its request arrives.
        if (outcome?.code === 'timeout') late.push(one)
        else
          yield `${told(round, one)} was answered 200 at ${round.inSeconds(one.endAt)} and came again: ${told(round, again)}; the outcome was ${JSON.stringify(outcome)}`
      }
    }
    round.count('repeats', repeats)
    round.count('late', late.length)
    if (late.length > MOST_LATE * round.records.length)
      yield `${late.length} of ${round.records.length} requests were answered in time, and are timeouts`
  },

  *'dead letters'({ dead, urls, settings }, { byMessage }) {
    for (const { destination, messageId } of dead) {
      const own = byMessage.get(`${destination} ${messageId}`) ?? []
      const refusing = new Set(
        own.filter(({ fate }) => fate === REFUSAL).map(({ endpoint }) => endpoint),
      )
      const { origin } = settings.destinations.find(({ name }) => name === destination)
      if (refusing.size < urls[origin].length)
        yield `${messageId} is dead for ${destination}, but only ${refusing.size} of ${urls[origin].length} endpoints refused it`
    }
  },

  *'figures at rest'({ volley, records, status, stored }) {
    const fresh = records.filter(({ at }) => at >= volley.from)
    const names = new Set(stored.map(({ destination }) => destination))
    for (const name of names) {
      const grown = (what) =>
        (volley.after.get(`${name} ${what}`) ?? 0) - (volley.before.get(`${name} ${what}`) ?? 0)
      const own = fresh.filter(({ destination }) => destination === name)
      const taken = own.filter(isAnswered).length
      if (grown('delivered') !== taken)
        yield `the metrics count ${grown('delivered')} attempts that ${name} took, and it took ${taken}`
      const messages = new Set(own.map(({ id }) => id)).size
      if (grown('delivered message') !== messages)
        yield `the metrics count ${grown('delivered message')} messages for ${name}, and it got ${messages}`
    }
    for (const { name, dead } of status.destinations) {
      const letters = stored.filter(
        (one) => one.destination === name && one.state === 'dead',
      ).length
      if (dead !== letters)
        yield `the status has ${dead} dead letters of ${name}, the store ${letters}`
    }
  },

  *traces({ traces, urls, settings }, { byMessage }) {
    for (const { destination, messageId, state, attempts } of traces) {
      const own = byMessage.get(`${destination} ${messageId}`) ?? []
      const origin = settings.destinations.find(({ name }) => name === destination)?.origin
      const first = urls.slice(0, origin).flat().length
      for (const { url, code, attempt } of attempts) {
        const endpoint = first + urls[origin].indexOf(new URL(url).origin)
        const isSeen = own.some(
          (one) => one.endpoint === endpoint && one.attempt === attempt && isTaken(one),
        )
        if (code === 'delivered' && !isSeen)
          yield `the trace of ${messageId} says that ${url} took attempt ${attempt}, which it did not`
      }
      if (state === 'done' && !attempts.some(({ code }) => code === 'delivered'))
        yield `the trace of ${messageId} for ${destination} is done without an attempt that was delivered`
    }
  },

  *deletions({ load, settings, records }) {
    for (const { user, sentAt, answeredAt } of load.deletions) {
      const versions = settings.between(sentAt, answeredAt)
      for (const { name, sources, isEnabled } of versions[0].destinations) {
        const same = (one) => one.name === name && one.isEnabled && one.sources.length > 0
        if (!isEnabled || !versions.every(({ destinations }) => destinations.some(same))) continue
        const own = records.filter((one) => one.destination === name && one.deleted === user)
        const ids = new Set(own.filter(isTaken).map(({ id }) => id)).size
        if (ids < sources.length)
          yield `${name} took ${ids} deletions of ${user}, and has ${sources.length} sources`
      }
    }
  },

  *audiences({ load, settings, records }) {
    const always = settings.versions[0].destinations.filter(({ name }) =>
      settings.versions.every(({ destinations }) =>
        destinations.some((one) => one.name === name && one.sources.length > 0),
      ),
    )
    for (const [trait, members] of load.audiences) {
      for (const { name } of always) {
        const told = tellings(records, name, trait)
        for (const userId of new Set([...told.keys(), ...[...members].map((n) => `member-${n}`)])) {
          const isMember = members.has(Number(userId.slice('member-'.length)))
          const { joins = 0, leaves = 0 } = told.get(userId) ?? {}
          if (joins - leaves !== Number(isMember))
            yield `${name} was told that ${userId} joined ${trait} ${joins} times and left ${leaves} times, and the user is ${isMember ? '' : 'not '}in it`
        }
      }
    }
  },

  *memory({ service }) {
    if (service.peakMb > MOST_MB) yield `a process took ${Math.round(service.peakMb)} MB`
  },
}

/** The old entry of a destination that was renamed sends what it had before. */
const isFormer = (name, { routes }) => [...routes.may].some((one) => one.startsWith(name))

function byEndpoint(records) {
  const groups = new Map()
  for (const record of records) {
    const own = groups.get(record.endpoint)
    if (own) own.push(record)
    else groups.set(record.endpoint, [record])
  }
  return groups
}

/** The settings of an endpoint in the versions of a time. */
function webhooksOf({ urls, settings }, endpoint, from, to) {
  const url = urls.flat()[endpoint]
  return settings
    .between(from, to)
    .map(({ destinations }) =>
      destinations.flatMap(({ webhooks }) => webhooks.filter((one) => one.url === url)),
    )
}

function mostAtOnce(round, endpoint, at) {
  const { plan, service } = round
  const versions = webhooksOf(round, endpoint, at - UNDER_WAY_MS, at)
  // During a reload, the requests of the old settings are under way beside those of the new ones.
  const workers = plan.roles.length
  // Each worker may have at least one.
  const most = versions.flat().reduce((sum, one) => sum + Math.max(one.concurrency, workers), 0)
  return workers > 1 && isDisturbed(service, at - JOINING_MS, at) ? 2 * most : most
}

function mostInWindow(round, endpoint, at) {
  const from = at - RATE_WINDOW_MS - UNDER_WAY_MS
  const versions = webhooksOf(round, endpoint, from, at)
  const rates = versions.map((own) =>
    own.reduce((sum, one) => sum + (one.rateLimit ?? Infinity), 0),
  )
  const isJoining = isDisturbed(round.service, from - JOINING_MS, at)
  const most = Math.max(...rates) * ((RATE_WINDOW_MS + RATE_SLACK_MS) / 1_000)
  return (isJoining || versions.length > 1 ? 2 : 1) * most
}

const isDisturbed = ({ disturbances }, from, to) =>
  disturbances.some((one) => one.from <= to && one.to >= from)

/** How long something kept messages waiting between two times. */
function excusedMs({ disturbances }, from, to) {
  let ms = 0
  let until = from
  for (const one of disturbances.toSorted((a, b) => a.from - b.from)) {
    const begin = Math.max(until, one.from)
    const end = Math.min(to, one.lateUntil)
    if (end > begin) ms += end - begin
    until = Math.max(until, end)
  }
  return ms
}

/** Whether something happened before the outcome of an attempt was surely on disk. */
function isExcused({ service, load }, at, endAt) {
  const waitedMs = service.starvedMs(endAt - SETTLED_MS, endAt + SETTLED_MS) + commitMs(load, endAt)
  const settledMs = SETTLED_MS + 2 * waitedMs
  return service.disturbances.some((one) => at < one.to + settledMs && endAt > one.from - settledMs)
}

/** How long calls waited for their commit at a time. On a slow disk, outcomes take as long. */
const commitMs = ({ batches }, at) =>
  Math.max(
    0,
    ...batches.flatMap(({ triedAt, storedAt }) =>
      triedAt < at + SETTLED_MS && storedAt > at - SETTLED_MS ? [storedAt - triedAt] : [],
    ),
  )

/** What the destination says about an attempt at an endpoint. */
async function outcomeOf({ urls, traceOf }, { destination, id, endpoint, attempt }) {
  const url = `${urls.flat()[endpoint]}/${destination}`
  const trace = await traceOf(destination, id)
  const own = trace?.attempts.find((one) => one.attempt === attempt && one.url === url)
  return own && { code: own.code, ms: own.ms, error: own.error }
}

/** When the attempt has ended at all endpoints: its outcome is not stored before. */
function attemptEnd({ settings }, { destination, attempt, at }, own) {
  const same = own.filter((one) => one.attempt === attempt)
  const { webhooks } = settings.destinations.find(({ name }) => name === destination)
  const latest = Math.max(...same.map(({ endAt }) => endAt))
  // The others may wait for their turn, or for a connection.
  return same.length >= webhooks.length ? latest : Math.max(latest, at + UNDER_WAY_MS)
}

function tellings(records, name, trait) {
  const ids = new Map()
  for (const { destination, id, change } of records.filter(isTaken)) {
    if (destination === name && change?.trait === trait) ids.set(id, change)
  }
  const told = new Map()
  for (const { userId, isMember } of ids.values()) {
    const own = told.get(userId) ?? { joins: 0, leaves: 0 }
    own[isMember ? 'joins' : 'leaves'] += 1
    told.set(userId, own)
  }
  return told
}
