import { fastify } from 'fastify'
import { afterEach, expect, test } from 'vitest'
import { addHealthRoutes, type HealthParts } from '../../src/collector/health.js'
import { Dispatcher } from '../../src/dispatcher/dispatcher.js'
import { Target } from '../../src/dispatcher/target.js'
import { Gate } from '../../src/dispatcher/gate.js'
import { Line } from '../../src/dispatcher/line.js'
import { reportTo } from '../../src/report.js'
import { Settler } from '../../src/settle/settler.js'
import { StoreError } from '../../src/store/store-error.js'

const silent = {
  info: () => undefined,
  warn: () => undefined,
  error: () => undefined,
  debug: () => undefined,
}

const cleanUps: (() => unknown)[] = []
afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0)) await cleanUp()
})

async function ask(parts: Partial<HealthParts>) {
  const app = fastify()
  cleanUps.push(() => app.close())
  const well = { askStore: () => Promise.resolve(), stalledMs: () => 0, isStopping: () => false }
  addHealthRoutes(app, { ...well, ...parts })
  const [health, readiness] = await Promise.all([app.inject('/healthz'), app.inject('/readyz')])
  expect([health.statusCode, health.json()]).toEqual([200, { healthy: true }])
  const { ready, reasons } = readiness.json<{ ready: boolean; reasons: { code: string }[] }>()
  return { status: readiness.statusCode, ready, codes: reasons.map(({ code }) => code) }
}

test('one that can do its work is ready', async () => {
  expect(await ask({})).toEqual({ status: 200, ready: true, codes: [] })
})

test('a store that fails, or says nothing, makes it unready', async () => {
  const unready = { status: 503, ready: false, codes: ['store_failing'] }
  const failing = () => Promise.reject(new StoreError('failed', 'gone'))
  expect(await ask({ askStore: failing })).toEqual(unready)
  expect(await ask({ askStore: () => new Promise(() => undefined) })).toEqual(unready)
})

test('one that stops is unready', async () => {
  expect(await ask({ isStopping: () => true })).toMatchObject({ status: 503, codes: ['stopping'] })
})

test('a dispatcher whose claim does not end has stalled', async () => {
  let now = 0
  let answer: (() => void) | undefined
  const store = {
    claim: () =>
      new Promise<[]>((resolve) => {
        answer = () => {
          resolve([])
        }
      }),
  }
  const report = reportTo(silent)
  const settler = new Settler({ settle: () => Promise.resolve(0) }, report)
  const dispatcher = new Dispatcher({ store, settler, report, now: () => now, random: () => 0 })
  const endpoint = { url: 'https://a.example.com', headers: {}, concurrency: 1 }
  const poster = { post: () => undefined, close: () => Promise.resolve() }
  const line = new Line(endpoint, new Gate(1), poster, () => now)
  const crm = { name: 'crm', sources: ['web'], enabled: true, sharedSecret: undefined }
  dispatcher.aim([new Target({ ...crm, webhooks: [endpoint] }, [line], () => now)])
  cleanUps.push(() => {
    answer?.()
    return dispatcher.close()
  })
  const stalledMs = () => dispatcher.stalledMs
  now = 15_000
  expect((await ask({ stalledMs })).status).toBe(200)
  now = 15_001
  expect(await ask({ stalledMs })).toEqual({
    status: 503,
    ready: false,
    codes: ['dispatcher_stalled'],
  })
  answer?.()
})
