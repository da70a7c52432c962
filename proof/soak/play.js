// Plays a round: what the plan says happens, then everything is healthy, and the judge looks at what was recorded.
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { tsImport } from 'tsx/esm/api'
import { clock } from '../random/clock.js'
import { ACTS } from './acts.js'
import { askJson } from './ask.js'
import { startEndpoints } from './endpoints.js'
import { judge } from './judge.js'
import { Load } from './load.js'
import { rest } from './rest.js'
import { createSettings } from './settings.js'
import { Service } from './service.js'

/** @returns {Promise<object>} the faults, the story and the counts of a round */
export async function play(plan, { env, hasStrace }) {
  const root = await mkdtemp(join(tmpdir(), 'hookline-proof-soak-'))
  const startedAt = clock()
  const story = []
  const faults = []
  const counts = { repeats: 0, late: 0 }
  const inSeconds = (at) => `${((at - startedAt) / 1_000).toFixed(2)} s`
  const tell = (what) => story.push(`${inSeconds(clock()).padStart(9)}  ${what}`)
  const fault = (promise, what) => {
    faults.push(`${promise}: ${what}`)
    tell(`FAULT ${promise}: ${what}`)
  }
  const server = plan.store === 'postgres' ? await startPostgres() : undefined
  const store = server ? await server.database() : `sqlite:${join(root, 'store.db')}`
  const own = plan.destinations.flatMap(({ endpoints, secret }) =>
    endpoints.map(({ latencyMs }) => ({ latencyMs, secret })),
  )
  const endpoints = await startEndpoints(own)
  const left = [...endpoints.urls]
  const urls = plan.destinations.map((one) => left.splice(0, one.endpoints.length))
  const settings = createSettings(plan.destinations, urls)
  const parts = {
    ...{ plan, roles: plan.roles, root, env, hasStrace, store, server },
    ...{ settings, endpoints, inSeconds, tell, fault },
  }
  parts.service = new Service(parts)
  parts.load = new Load(parts)
  try {
    await parts.service.start()
    const beganAt = clock()
    await happen(parts, urls)
    const seen = await rest(parts, clock() - beganAt)
    const records = await endpoints.tell('records')
    const count = (what, by) => (counts[what] = by)
    const round = { ...parts, ...seen, urls, records, count, traceOf: tracesOf(parts, seen) }
    const starvedMs = parts.service.starvedMs(startedAt, clock())
    tell(`processes waited ${Math.round(starvedMs)} ms for a CPU`)
    for (const [promise, what] of await judge(round)) fault(promise, what)
    await parts.service.stop()
    return { faults, story, ...counts, ...countsOf(parts, records) }
  } catch (error) {
    fault('crash', error.stack)
    return { faults, story, ...counts, ...countsOf(parts, []) }
  } finally {
    parts.load.end()
    await parts.service.close()
    await endpoints.close()
    await server?.dispose()
    await rm(root, { recursive: true, force: true })
  }
}

async function startPostgres() {
  const file = new URL('../../destination/test/store/postgres/server.ts', import.meta.url).href
  const { startServer } = await tsImport(file, import.meta.url)
  return startServer()
}

/** Looks up what the destination says about a message. */
function tracesOf({ service }, { stored }) {
  const ids = new Map(
    stored.map(({ id, destination, messageId }) => [`${destination} ${messageId}`, id]),
  )
  return async (destination, messageId) => {
    const id = ids.get(`${destination} ${messageId}`)
    return id === undefined ? undefined : askJson(service.all[0], `deliveries/${id}`)
  }
}

function countsOf({ load, service }, records) {
  const messages = load.batches.reduce((sum, { calls }) => sum + calls.length, 0)
  return { messages, requests: records.length, peakMb: service.peakMb, ...service.counts }
}

/** The active part of the round. */
async function happen(parts, urls) {
  const { plan, load, endpoints, tell, fault } = parts
  const startedAt = clock()
  const until = (at) => sleep(Math.max(0, startedAt + at - clock()))
  const numberOf = (n, e) => urls.slice(0, n).flat().length + e
  const phases = plan.destinations.flatMap(({ name, endpoints }, n) =>
    endpoints.flatMap((endpoint, e) =>
      endpoint.phases.map(({ at, mode }) => ({ at, mode, name, e, endpoint: numberOf(n, e) })),
    ),
  )
  const changes = phases.map(async ({ at, mode, name, e, endpoint }) => {
    await until(at)
    tell(`endpoint ${e} of ${name}: ${JSON.stringify(mode)}`)
    await endpoints.tell('mode', { endpoint, mode })
  })
  const bursts = plan.bursts.map(async (burst) => {
    await until(burst.at)
    ACTS.burst(burst, parts)
  })
  const acts = async () => {
    for (const act of plan.acts) {
      await until(act.at)
      await ACTS[act.do](act, parts, (e) => numberOf(act.destination, e))
    }
  }
  const running = load.run()
  await Promise.all([...changes, ...bursts, acts(), until(plan.activeMs)])
  load.end()
  await running
  await calm(parts, numberOf)
  await load.answered()
  if (load.batches.length === 0) fault('answers', 'no call was accepted')
}

/** Everything is healthy again, and everybody has the newest settings. */
async function calm({ plan, service, settings, endpoints, tell }, numberOf) {
  tell('everything is healthy again')
  for (const number of plan.roles.keys()) service.resume(number)
  await service.settled()
  const before = JSON.stringify(settings.destinations)
  for (const one of settings.destinations) {
    const secret = one.secrets.at(-1)
    for (const e of one.webhooks.keys())
      await endpoints.tell('new secret', { endpoint: numberOf(one.origin, e), secret })
    Object.assign(one, { isEnabled: true, isPresent: true, secrets: [secret] })
  }
  await endpoints.tell('calm')
  // A reload that changes nothing might wake what is stuck.
  if (JSON.stringify(settings.destinations) !== before) service.reload('the last settings')
  await service.settled()
}
