// @module-tag long
// Alerts as they arrive: everything is real, the destination, its store, the endpoints and the receiver of the alerts.
import { parseWebhook } from 'hookline/webhook'
import { describe, test, type ExpectStatic } from 'vitest'
import { startDestination, type RunningDestination } from '../../src/destination.js'
import type { AuditLog, Status } from '../../src/model/answers.js'
import type { Log } from '../../src/observe/log.js'
import type { Alerts, Destination, Settings } from '../../src/settings/settings.js'
import { startEndpoint, type Answer, type TestEndpoint } from '../endpoint.js'
import {
  ADMIN_TOKEN,
  destination,
  post,
  settingsFor,
  silent,
  start as startFor,
  track,
  type Later,
} from '../run.js'

const SECRET = 'ops-secret'

/** The alerts that a receiver got, whose signatures it has verified. */
function alertsAt(ops: TestEndpoint) {
  return ops.received.map(({ body, headers }) => {
    const event = parseWebhook(SECRET, body, headers['x-signature'])
    if (event.type !== 'track') throw new Error(`not a track call: ${event.type}`)
    return { name: event.event, ...event.properties }
  })
}

async function ask<T>(one: RunningDestination, path: string, body?: object): Promise<T> {
  const response = await fetch(`${one.adminUrl}/v1/admin${path}`, {
    ...(body && { method: 'POST', body: JSON.stringify(body) }),
    headers: { Authorization: `Bearer ${ADMIN_TOKEN}` },
  })
  return (await response.json()) as T
}

const pauseOf = async (one: RunningDestination, name = 'crm') =>
  (await ask<Status>(one, '/status')).destinations.find((each) => each.name === name)?.paused

/** Long enough for several ticks, in which nothing more must come. */
const quiet = () => new Promise((resolve) => setTimeout(resolve, 3_000))

/** What a test starts, each with its clean-up. */
function toolsFor(later: Later) {
  return {
    start: (settings: Settings, log?: Log) => startFor(settings, log, later),
    endpoint: async (...script: Answer[]): Promise<TestEndpoint> => {
      const started = await startEndpoint(script.length > 0 ? script : [204])
      later(() => started[Symbol.asyncDispose]())
      return started
    },
    /** Settings in which the destination `ops`, if there is one, gets the alerts. */
    withAlerts: (
      watched: Destination[],
      ops: TestEndpoint | undefined,
      changes: Partial<Alerts>,
    ): Settings => {
      const to = ops && destination([ops], { name: 'ops', sources: [], sharedSecret: SECRET })
      const alerts = { ...(to && { destination: 'ops' }), afterMs: [3_600_000], ...changes }
      return settingsFor([...watched, ...(to ? [to] : [])], { alerts }, later)
    },
    /** Posts a message now and then, so that an endpoint has something to refuse, until the test ends. */
    flow: (one: RunningDestination): void => {
      let sent = 0
      const timer = setInterval(() => {
        void post(one, [track(`flow-${Math.random()}-${sent++}`)]).catch(() => undefined)
      }, 200)
      later(() => {
        clearInterval(timer)
      })
    },
  }
}

type Tools = ReturnType<typeof toolsFor> & { expect: ExpectStatic }

/** The tests run side by side, because most of their time is waiting. */
function alertTest(name: string, work: (tools: Tools) => Promise<void>): void {
  test.concurrent(name, async ({ expect, onTestFinished }) => {
    const later: Later = (cleanUp) => {
      onTestFinished(async () => {
        await cleanUp()
      })
    }
    await work({ ...toolsFor(later), expect })
  })
}

describe('alerts', () => {
  alertTest(
    'tell once for each time that an endpoint fails, and once that it has recovered',
    async ({ endpoint, expect, flow, start, withAlerts }) => {
      const [crm, ops] = [await endpoint(400), await endpoint()]
      // A message that is refused does not open the breaker, so the next one is sent at once.
      const lines: object[] = []
      const keep = (details: object, message: string) => {
        if (message === 'alert') lines.push(details)
      }
      const log: Log = { ...silent, info: keep, error: keep }
      const settings = withAlerts([destination([crm])], ops, { afterMs: [1_000, 9_000] })
      const one = await start(settings, log)
      flow(one)
      await ops.has(2)
      expect(alertsAt(ops)).toMatchObject([
        {
          name: 'Endpoint Failing',
          destination: 'crm',
          endpoint: crm.url,
          code: 'client_error',
          status: 400,
          error: 'The endpoint answered 400.',
        },
        { name: 'Endpoint Failing' },
      ])
      const [first, second] = alertsAt(ops) as { since?: string }[]
      expect(first?.since).toBe(second?.since)
      crm.answer(204)
      await ops.has(3)
      expect(alertsAt(ops)[2]).toMatchObject({
        ...{
          name: 'Endpoint Recovered',
          destination: 'crm',
          endpoint: crm.url,
          since: first?.since,
        },
      })
      await quiet()
      expect(ops.received).toHaveLength(3)
      expect(lines).toMatchObject([
        { alert: 'Endpoint Failing', destination: 'crm', status: 400 },
        { alert: 'Endpoint Failing' },
        { alert: 'Endpoint Recovered' },
      ])
    },
  )

  alertTest(
    'survive a restart: an endpoint has failed since the first failure, and nothing is told twice',
    async ({ endpoint, expect, flow, start, withAlerts }) => {
      const [crm, ops] = [await endpoint(400), await endpoint()]
      const settings = withAlerts([destination([crm])], ops, { afterMs: [1_000, 9_000] })
      const first = await startDestination(settings, silent)
      flow(first)
      await ops.has(1)
      await first.close()
      const second = await start(settings)
      flow(second)
      await ops.has(2)
      await quiet()
      const alerts = alertsAt(ops) as { name: string; since?: string }[]
      expect(alerts.map(({ name }) => name)).toEqual(['Endpoint Failing', 'Endpoint Failing'])
      expect(alerts[0]?.since).toBe(alerts[1]?.since)
    },
  )

  alertTest(
    'forget an endpoint that the settings no longer have, and begin anew when it is back',
    async ({ endpoint, expect, flow, start, withAlerts }) => {
      const [crm, ops] = [await endpoint(503), await endpoint()]
      const settings = withAlerts([destination([crm])], ops, { afterMs: [1_000] })
      const one = await start(settings)
      flow(one)
      await ops.has(1)
      await one.reload({ ...settings, destinations: settings.destinations.slice(1) })
      await quiet()
      await one.reload(settings)
      await ops.has(2)
      const alerts = alertsAt(ops) as { name: string; since?: string }[]
      expect(alerts.map(({ name }) => name)).toEqual(['Endpoint Failing', 'Endpoint Failing'])
      expect(Date.parse(alerts[1]?.since ?? '')).toBeGreaterThan(Date.parse(alerts[0]?.since ?? ''))
    },
  )

  alertTest(
    'pause a destination whose endpoints all fail for too long, and a resume begins anew',
    async ({ endpoint, expect, flow, start, withAlerts }) => {
      const [crm, ops] = [await endpoint(503), await endpoint()]
      const changes = { afterMs: [1_000], pauseAfterMs: 2_000 }
      const one = await start(withAlerts([destination([crm])], ops, changes))
      const begun = Date.now()
      flow(one)
      await ops.has(2)
      await expect.poll(() => pauseOf(one)).toMatchObject({ by: 'alerts' })
      const paused = await pauseOf(one)
      expect(paused).toMatchObject({
        reason: expect.stringMatching(
          /^No endpoint has accepted a message since 20.*Z\. /,
        ) as string,
      })
      const audit = await ask<AuditLog>(one, '/audit?kind=destination&name=crm')
      expect(audit.entries).toMatchObject([{ action: 'pause', by: 'alerts', from: null }])
      // They are two messages of one moment, so either may arrive first.
      const named = (name: string) =>
        alertsAt(ops).find((one) => one.name === name) as { keptUntil?: string; since?: string }
      const alert = named('Destination Paused')
      expect(named('Endpoint Failing')).toMatchObject({ destination: 'crm' })
      expect(alert).toMatchObject({
        ...{ name: 'Destination Paused', destination: 'crm', reason: paused?.reason },
        waiting: expect.any(Number) as number,
      })
      // The oldest message was accepted before it began to fail, and is kept for the retention of 7 days.
      const acceptedAt = Date.parse(alert.keptUntil ?? '') - 7 * 86_400_000
      expect(acceptedAt).toBeGreaterThanOrEqual(begun)
      expect(acceptedAt).toBeLessThan(Date.parse(alert.since ?? '') + changes.pauseAfterMs)
      const before = crm.received.length
      await quiet()
      expect(crm.received.length).toBe(before)
      // What failed before the pause does not count: it is not paused again at once.
      await ask(one, '/destinations/crm/resume', {})
      await crm.has(before + 1)
      expect(await pauseOf(one)).toBeNull()
      crm.answer(204)
      const waiting = async () =>
        (await one.stats()).find((each) => each.destination === 'crm')?.fresh
      await expect.poll(waiting).toBeFalsy()
      await quiet()
      expect(await pauseOf(one)).toBeNull()
      const names = alertsAt(ops).map(({ name }) => name)
      expect(names.filter((name) => name === 'Destination Paused')).toHaveLength(1)
      expect(names.at(-1)).toBe('Endpoint Recovered')
    },
  )

  alertTest(
    'do not pause a destination that another endpoint still serves',
    async ({ endpoint, expect, flow, start, withAlerts }) => {
      const [down, good, ops] = [await endpoint(503), await endpoint(), await endpoint()]
      const changes = { afterMs: [1_000], pauseAfterMs: 1_000 }
      const one = await start(withAlerts([destination([down, good])], ops, changes))
      flow(one)
      await ops.has(1)
      await quiet()
      expect(alertsAt(ops)).toMatchObject([{ name: 'Endpoint Failing', endpoint: down.url }])
      expect(await pauseOf(one)).toBeNull()
    },
  )

  alertTest(
    'tell that there are many dead letters, and that there are no more, without one for each',
    async ({ endpoint, expect, start, withAlerts }) => {
      const [crm, ops] = [await endpoint(400), await endpoint()]
      const deadLetters = { count: 5, withinMs: 4_000 }
      const one = await start(withAlerts([destination([crm])], ops, { deadLetters }))
      await post(
        one,
        Array.from({ length: 4 }, (_, i) => track(`a${i}`)),
      )
      await crm.has(4)
      await new Promise((resolve) => setTimeout(resolve, 5_000))
      expect(ops.received).toEqual([])
      await post(
        one,
        Array.from({ length: 40 }, (_, i) => track(`b${i}`)),
      )
      await ops.has(2)
      await quiet()
      expect(alertsAt(ops)).toMatchObject([
        { name: 'Dead Letters Above Limit', destination: 'crm', limit: 5 },
        { name: 'Dead Letters Below Limit', destination: 'crm' },
      ])
      expect(ops.received).toHaveLength(2)
    },
  )

  alertTest(
    'about their own destination are not given, and their failures hold nothing up',
    async ({ endpoint, expect, flow, start, withAlerts }) => {
      const [crm, ops] = [await endpoint(503), await endpoint(500)]
      const changes = { afterMs: [1_000], pauseAfterMs: 60_000 }
      const lines: { destination?: string }[] = []
      const log: Log = {
        ...silent,
        error: (details: object, message: string) => {
          if (message === 'alert') lines.push(details)
        },
      }
      const one = await start(withAlerts([destination([crm])], ops, changes), log)
      flow(one)
      await ops.has(3) // the alert, and two retries of it
      await quiet()
      expect(lines.map(({ destination: name }) => name)).toEqual(['crm'])
      const ids = new Set(ops.received.map(({ headers }) => headers['x-message-id']))
      expect(ids.size).toBe(1)
    },
  )

  alertTest(
    'without a destination are only logged, and without the setting nothing is watched',
    async ({ endpoint, expect, flow, start, withAlerts }) => {
      const crm = await endpoint(503)
      const lines: object[] = []
      const log: Log = {
        ...silent,
        error: (details: object, message: string) => {
          if (message === 'alert') lines.push(details)
        },
      }
      const settings = withAlerts([destination([crm])], undefined, { afterMs: [1_000] })
      const one = await start(settings, log)
      flow(one)
      await expect.poll(() => lines.length).toBe(1)
      expect(lines).toMatchObject([{ alert: 'Endpoint Failing', destination: 'crm' }])
      await one.reload({ ...settings, alerts: undefined })
      crm.answer(204)
      await quiet()
      expect(lines).toHaveLength(1)
    },
  )
})
