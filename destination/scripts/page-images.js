// Makes the screenshots of the page in docs/images, from a store with a week of made-up traffic:
//
//   npm run build -w hookline-destination && node destination/scripts/page-images.js [FOLDER] [DESTINATIONS]
//
// It needs a Chromium in /usr/bin. With a FOLDER it writes more images there: all views, light and dark, wide and narrow.
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { chromium } from 'playwright-core'
import { startDestination } from '../dist/destination.js'
import { openSqlite } from '../dist/store/sqlite/store.js'

const [folder, many = '6'] = process.argv.slice(2)
const docs = fileURLToPath(new URL('../../docs/images/', import.meta.url))

const MINUTE = 60_000
const HOUR = 60 * MINUTE
const DAY = 24 * HOUR
const NAMES = [
  'crm',
  'warehouse',
  'ads',
  'support',
  'billing',
  'loyalty',
  'search',
  'mail',
  'push',
  'fraud',
]
const EVENTS = ['Order Completed', 'Signed Up', 'Cart Viewed', 'Plan Changed', 'Item Added']

/** The same numbers in each run, so that images change only with the page. */
let seed = 7
const random = () => {
  seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648
  return seed / 2_147_483_648
}
const pick = (list) => list[Math.floor(random() * list.length)]

const destinations = Array.from({ length: Number(many) }, (_, i) => {
  const name =
    i < NAMES.length ? NAMES[i] : `${NAMES[i % NAMES.length]}-${Math.floor(i / NAMES.length)}`
  const host = `https://hooks.${name}.example.com/events`
  const urls = i === 0 ? [host, 'https://eu.hooks.crm.example.com/events'] : [host]
  return {
    name,
    sources: ['web', 'app'],
    enabled: i % 17 !== 16,
    sharedSecret: 'secret',
    webhooks: urls.map((url) => ({ url, headers: { 'X-Api-Key': 'key' }, concurrency: 32 })),
  }
})

/** What happens at an endpoint in a minute at a time. */
function traffic(index, at, now) {
  const day = 1 + 0.7 * Math.sin(((at % DAY) / DAY) * 2 * Math.PI - 2)
  const weight = [90, 60, 25, 12, 40, 8, 30, 18, 4, 22][index % 10]
  const sent = Math.max(0, Math.round(weight * day * (0.75 + 0.5 * random())))
  if (index % 29 === 1) return at > now - 46 * MINUTE ? [0, sent] : [sent, 0]
  if (index % 29 === 2) return [Math.round(sent * 0.88), Math.round(sent * 0.12)]
  if (index % 29 === 8) return [0, 0]
  return [sent, random() < 0.15 ? 1 : 0]
}

function binsOf(count, ms) {
  const bins = new Array(48).fill(0)
  for (let i = 0; i < Math.min(count, 60); i++) {
    const one = ms * (0.7 + random() * 0.6) * (random() < 0.02 ? 6 : 1)
    const bin = Math.min(47, Math.max(0, Math.floor(Math.log2(one) * 4)))
    bins[bin] += Math.ceil(count / 60)
  }
  return bins.slice(0, bins.findLastIndex((n) => n > 0) + 1)
}

async function fill(path, now) {
  const clock = { at: now - 7 * DAY }
  const store = await openSqlite(path, { now: () => clock.at, wall: () => clock.at })
  const step = async (at, minutes) => {
    clock.at = at
    const rows = destinations.flatMap(({ name, webhooks }, i) =>
      webhooks.map(({ url }, n) => {
        const [delivered, failed] = traffic(i, at, now).map((one) => one * minutes)
        const ms = 25 + (i % 7) * 22 + n * 15
        return {
          ...{ destination: name, url, delivered, failed, busy: 0 },
          breaker: 'closed',
          bins: binsOf(delivered + failed, ms),
        }
      }),
    )
    await store.addHistory(rows.filter(({ delivered, failed }) => delivered + failed > 0))
  }
  for (let at = now - 7 * DAY; at < now - DAY; at += HOUR) await step(at, 60)
  for (let at = now - DAY; at < now - HOUR; at += 15 * MINUTE) await step(at, 15)
  for (let at = now - HOUR; at <= now; at += MINUTE) {
    await step(at, 1)
    if (at > now - 40 * MINUTE) await deliveries(store, clock, at)
  }
  await retried(store, clock, now)
  clock.at = now
  await store.close()
}

const REFUSALS = [
  [422, '{"error":{"code":"unknown_event","message":"Unknown event type"}}'],
  [422, '{"error":{"code":"unknown_event","message":"Unknown event type"}}'],
  [400, '{"error":{"code":"bad_email","message":"traits.email is not an address"}}'],
  [410, 'This webhook was deleted.'],
]

const HEADERS =
  'date: Sun, 22 Nov 2026 18:00:00 GMT\ncontent-type: application/json; charset=utf-8\nserver: nginx\nx-request-id: 6f1c2ab07d'

let n = 0
function message(destination, user = `user-${1_000 + Math.floor(random() * 900)}`) {
  const event = pick(EVENTS)
  const messageId = `msg-${(++n).toString().padStart(5, '0')}-${Math.floor(random() * 1e9).toString(36)}`
  const body = {
    ...{ version: 1, type: 'track', userId: user, event, timestamp: 1_795_370_400_000 + n },
    properties: {
      ...{
        orderId: `A-${10_000 + n}`,
        total: Math.round(random() * 20_000) / 100,
        currency: 'EUR',
      },
      items: [
        { sku: 'TEA-042', quantity: 2, price: 4.5 },
        { sku: 'CUP-007', quantity: 1, price: 12 },
      ],
      coupon: null,
      isGift: random() < 0.3,
    },
    context: { locale: 'de-DE', page: { path: '/checkout', referrer: '' } },
  }
  return {
    ...{ messageId, source: pick(['web', 'app']), destination, type: 'track', user, event },
    ...{ body: JSON.stringify(body), state: 'leased' },
  }
}

async function deliveries(store, clock, at) {
  for (const [i, { name, webhooks, enabled }] of destinations.slice(0, 10).entries()) {
    if (!enabled) continue
    const count = i === 0 ? 4 : i < 4 ? 2 : 1
    const ids = await store.put(Array.from({ length: count }, () => message(name)))
    clock.at = at + Math.floor(random() * 50_000)
    await store.settle(ids.map((id) => outcomeOf(id, i, webhooks[0].url)))
  }
}

function outcomeOf(id, i, url) {
  const ms = Math.round(20 + random() * 80)
  const base = { url, ms, headers: HEADERS }
  if (i === 2 && random() < 0.45) {
    const [status, response] = pick(REFUSALS)
    const error = `The endpoint answered ${status}.`
    const reason = `every endpoint refused it: ${error}`
    const log = [{ ...base, code: 'client_error', status, error, response }]
    return { id, attempt: 1, next: { state: 'dead', reason }, refusedBy: [url], log }
  }
  if (i === 1) {
    const error = 'The endpoint answered 503.'
    const log = [
      { ...base, code: 'server_error', status: 503, error, response: 'upstream is away' },
    ]
    const next = { state: 'backlog', delayMs: DAY }
    return { id, attempt: 1, next, refusedBy: [], log }
  }
  const log = [{ url, ms, code: 'delivered', status: 204, error: null, response: '' }]
  return { id, attempt: 1, next: { state: 'done' }, refusedBy: [], log }
}

/** One delivery that was tried often, as in a long outage. */
async function retried(store, clock, now) {
  const [, { name, webhooks }] = destinations
  clock.at = now - 3 * MINUTE
  const [id] = await store.put([message(name, 'user-1042')])
  for (let attempt = 1; attempt <= 9; attempt++) {
    const isLast = attempt > 6
    const status = isLast ? 500 : 503
    const response = isLast
      ? '{"error":{"code":"internal","message":"The queue is full","node":"b"},"retry":true}'
      : '{"error":{"code":"unavailable","message":"The database is away","node":"b"},"retry":true}'
    const error = `The endpoint answered ${status}.`
    const log = [
      {
        url: webhooks[0].url,
        code: 'server_error',
        status,
        ms: 31,
        error,
        response,
        headers: HEADERS,
      },
    ]
    const delayMs = attempt === 9 ? 90 * MINUTE : 1_000
    await store.settle([{ id, attempt, next: { state: 'backlog', delayMs }, refusedBy: [], log }])
    clock.at += 1_500
    const claim = { destination: name, lane: 'backlog', limit: 1 }
    if (attempt < 9) await store.claim([claim])
  }
  return id
}

const TOKEN = 'a-token-for-screenshots'

async function main() {
  const data = mkdtempSync(join(tmpdir(), 'hookline-images-'))
  const path = join(data, 'hookline.db')
  await fill(path, Date.now())
  const silent = () => undefined
  const running = await startDestination(
    {
      listen: { host: '127.0.0.1', port: 0 },
      sources: ['web', 'app'].map((name) => ({ name, writeKey: `${name}-key` })),
      ...{ destinations, store: `sqlite:${path}`, adminToken: TOKEN, allowNetworks: [], ca: [] },
      retentionMs: 7 * DAY,
    },
    { info: silent, warn: silent, error: silent, debug: silent },
  )
  const browser = await chromium.launch({
    executablePath: '/usr/bin/chromium',
    args: ['--no-sandbox'],
  })
  try {
    if (folder) await makeAll(browser, running.adminUrl)
    else await makeForDocs(browser, running.adminUrl)
  } finally {
    await browser.close()
    await running.close()
    rmSync(data, { recursive: true })
  }
}

async function openPage(browser, url, options) {
  const context = await browser.newContext({
    reducedMotion: 'reduce',
    timezoneId: 'Europe/Berlin',
    ...options,
  })
  const page = await context.newPage()
  await page.addInitScript(`sessionStorage.setItem('hookline-admin-token', '${TOKEN}')`)
  await page.goto(url)
  return page
}

async function shoot(page, hash, path, fullPage = false) {
  await page.evaluate(`location.hash = ${JSON.stringify(hash)}`)
  await page.locator('main h1').waitFor()
  await page.waitForTimeout(700)
  await page.screenshot({ path, fullPage })
}

/** The id of the delivery that was retried, which is the newest one of its destination. */
async function retriedId(url) {
  const response = await fetch(
    `${url}/v1/admin/deliveries?user=user-1042&destination=warehouse&limit=1`,
    {
      headers: { authorization: `Bearer ${TOKEN}` },
    },
  )
  return (await response.json()).deliveries[0].id
}

async function makeForDocs(browser, url) {
  const id = await retriedId(url)
  const page = await openPage(browser, url, { viewport: { width: 1200, height: 1000 } })
  await shoot(page, '#/', join(docs, 'overview.png'))
  await shoot(page, `#/deliveries/${id}`, join(docs, 'delivery.png'))
  await shoot(page, '#/deliveries?state=dead', join(docs, 'dead-letters.png'))
  await page.emulateMedia({ colorScheme: 'dark' })
  await shoot(page, '#/destinations/warehouse?span=24h', join(docs, 'destination-dark.png'))
}

async function makeAll(browser, url) {
  mkdirSync(folder, { recursive: true })
  const id = await retriedId(url)
  const views = {
    overview: '#/',
    week: '#/?span=7d',
    destination: '#/destinations/crm?span=24h',
    failing: '#/destinations/warehouse',
    deliveries: '#/deliveries',
    filtered: '#/deliveries?state=done&range=24h&destination=crm&status=2xx',
    dead: '#/deliveries?state=dead',
    delivery: `#/deliveries/${id}`,
    search: '#/search?q=order',
    live: '#/live',
  }
  for (const colorScheme of ['light', 'dark']) {
    for (const width of [1280, 390]) {
      const page = await openPage(browser, url, { colorScheme, viewport: { width, height: 900 } })
      for (const [name, hash] of Object.entries(views)) {
        await shoot(page, hash, join(folder, `${name}-${colorScheme}-${width}.png`), true)
      }
      await page.context().close()
    }
  }
}

await main()
