// The page as people use it. Everything behind it is real: the destination, its store, the endpoints.
import { execFile } from 'node:child_process'
import type { ServerResponse } from 'node:http'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Page, Route } from 'playwright-core'
import type { RunningDestination } from '../../src/destination.js'
import type { Settings } from '../../src/settings/settings.js'
import { startEndpoint, type Answer } from '../endpoint.js'
import {
  ADMIN_TOKEN,
  destination,
  endpoint,
  KEY,
  post,
  settingsFor,
  start,
  track,
  type Later,
  withTheTest,
} from '../run.js'
import { barriers, chromiumPath, focused, NAME, open, useBrowser } from './browser.js'

const HOSTILE = '<img src=x onerror=alert(document.domain)>'

const VIEWS = [
  '#/',
  '#/live',
  '#/deliveries',
  '#/deliveries?state=dead',
  '#/deliveries?range=24h&status=4xx&code=client_error',
  '#/destinations/ads?span=7d',
  '#/?span=24h&sort=requests&order=desc',
  '#/deliveries/1',
  '#/messages/refused-0',
  '#/search?q=u1',
  '#/nowhere',
]

/** Settings with a page that needs no token, and may not replay. */
const READ_ONLY = { adminToken: undefined, adminListen: { host: '127.0.0.1', port: 0 } }

/** The errors that a browser reports until it has the token. */
const NO_TOKEN = /status of 401/

/** The errors that a browser reports if answers are lost, or a count has changed. */
const LOST = /status of (?:401|409)|net::ERR_FAILED/

/** A destination that has lived: what was delivered, what was refused for good, what waits for one that is down. */
async function lived(changes: Partial<Settings> = {}, later: Later = withTheTest) {
  const answering = async (answer: Answer) => {
    const started = await startEndpoint([answer])
    later(() => started[Symbol.asyncDispose]())
    return started
  }
  const good = await answering(204)
  const refusing = await answering((response) => response.writeHead(400).end(`no: ${HOSTILE}`))
  const down = await answering((response) => response.writeHead(503).end('come back later'))
  const running = await start(
    settingsFor(
      [
        destination([good], { name: 'crm' }),
        destination([refusing], { name: 'ads' }),
        destination([down], { name: 'warehouse' }),
      ],
      changes,
      later,
    ),
    undefined,
    later,
  )
  await post(running, [
    ...Array.from({ length: 3 }, (_, i) => track(`refused-${i}`)),
    ...Array.from({ length: 9 }, (_, i) => track(`other-${i}`, { userId: `u${i}` })),
    { ...track('hostile', { userId: HOSTILE, event: HOSTILE }), properties: { note: HOSTILE } },
    { type: 'identify', messageId: 'known', userId: 'u1', traits: { name: HOSTILE } },
  ])
  await Promise.all([good.has(14), refusing.has(14), down.has(5)])
  return { running, good, refusing, down }
}

const at = (running: RunningDestination, hash: string) => `${running.adminUrl}/${hash}`

async function enterToken(page: Page, token: string): Promise<void> {
  await page.getByLabel('Admin token').fill(token)
  await page.getByRole('button', { name: 'Use token' }).click()
}

const rows = (page: Page) => page.locator('a.row')

/** Another view of the page that is open, all of it. */
async function visit(page: Page, hash: string): Promise<void> {
  await page.evaluate(`location.hash = ${JSON.stringify(hash)}`)
  await page.locator('main h1').waitFor()
  await page.locator('[aria-busy=true]').first().waitFor({ state: 'detached' })
}

/** The numbers in the events of a list: 7 of `e7`. */
async function numbersShown(page: Page): Promise<number[]> {
  const texts = await page.locator('.row .what').allInnerTexts()
  return texts.map((text) => Number(/e(\d+)/.exec(text)?.[1]))
}

describe.skipIf(chromiumPath === undefined)('the page', () => {
  useBrowser()

  // For those who only look.
  let shared: Awaited<ReturnType<typeof lived>>
  const cleanUps: (() => unknown)[] = []
  beforeAll(async () => {
    shared = await lived(READ_ONLY, (cleanUp) => cleanUps.push(cleanUp))
  })
  afterAll(async () => {
    for (const cleanUp of cleanUps.reverse()) await cleanUp()
  })

  test('says in words which endpoint is down, what it answers and that calls wait', async () => {
    const { running, down } = shared
    const page = await open(at(running, ''))
    const { host } = new URL(down.url)
    const sentence = page.locator('.sentence.bad', { hasText: 'warehouse:' })
    await sentence.filter({ hasText: `${host}/hook answers 503 since ` }).waitFor()
    await sentence.filter({ hasText: /\d+ calls are waiting/ }).waitFor()
    await sentence.getByRole('link').click()
    await page.getByText('503 come back later').first().waitFor()
  })

  test('is no more worried once the endpoint is back', async () => {
    const { running, down } = await lived(READ_ONLY)
    const page = await open(at(running, ''))
    const sentence = page.locator('.sentence.bad', { hasText: 'warehouse:' })
    await sentence.waitFor()
    down.answer(204)
    await sentence.waitFor({ state: 'detached' })
  })

  test('shows how to send the first call where there was none, and then that it came', async () => {
    const running = await start(settingsFor([destination([await endpoint()])], READ_ONLY))
    const page = await open(at(running, ''))
    await page.getByRole('heading', { name: 'No call yet since the start' }).waitFor()
    await page.getByText('hookline-destination send track').waitFor()
    const command = await page.getByText('curl').innerText()
    const given = { COLLECTOR_URL: running.url, WRITE_KEY: KEY }
    const filledIn = command.replace(
      /COLLECTOR_URL|WRITE_KEY/g,
      (name) => given[name as 'WRITE_KEY'],
    )
    await promisify(execFile)('sh', ['-c', filledIn])
    await page.getByText('Everything is healthy. 1 call accepted').waitFor()
  })

  test('sends dead letters again after the token, a dry run in words and a yes', async () => {
    const { running, refusing } = await lived()
    const page = await open(at(running, '#/deliveries?state=dead&event=Signed%20Up'), {}, NO_TOKEN)
    await enterToken(page, 'wrong')
    await page.getByText('This is neither the admin token nor the operator token').waitFor()
    await enterToken(page, ADMIN_TOKEN)
    await expect.poll(() => rows(page).count()).toBe(12)
    await page.getByRole('button', { name: 'Replay allowed' }).waitFor()
    refusing.answer(204)
    await page.getByRole('button', { name: 'Send all matching again …' }).click()
    await page.getByText('12 dead letters would be sent again.').waitFor()
    await page.getByText('ads: 12').waitFor()
    expect(await running.stats()).toContainEqual(
      expect.objectContaining({ destination: 'ads', dead: 14 }),
    )
    await page.getByRole('button', { name: 'Send 12 again' }).click()
    await refusing.has(26)
    await page.getByText('12 deliveries will be sent again.').waitFor()
    await page.getByText('No dead letter matches this filter.').waitFor()
  })

  test('after a lost answer says what was sent, and sends nothing twice, however many die meanwhile', async () => {
    const refusing = await endpoint(422)
    const running = await start(settingsFor([destination([refusing], { name: 'ads' })]))
    await post(running, [track('a'), track('b'), track('c')])
    await refusing.has(3)
    const page = await open(at(running, '#/deliveries?state=dead'), {}, LOST)
    await enterToken(page, ADMIN_TOKEN)
    const dialog = page.getByRole('dialog')
    const begin = async (of: number) => {
      await page.getByRole('button', { name: 'Send all again …' }).click()
      await dialog.getByText(`${of} dead letters would be sent again.`).waitFor()
    }
    await begin(3)
    // More of them arrive all the time.
    await post(running, [track('d')])
    await refusing.has(4)
    await dialog.getByRole('button', { name: 'Send 3 again' }).click()
    await page.getByText('3 deliveries will be sent again.').waitFor()
    await refusing.has(7)
    await expect.poll(async () => (await running.stats())[0]?.dead).toBe(4)

    await begin(4)
    await page.route('**/v1/admin/replay', async (route) => {
      if (route.request().postData()?.includes('"dryRun":true') === true) return route.continue()
      await route.fetch()
      await refusing.has(11)
      return route.abort()
    })
    await dialog.getByRole('button', { name: 'Send 4 again' }).click()
    await dialog.getByText('The answer was lost. None of the 4 dead letters is left').waitFor()
    await expect.poll(() => focused(page)).toBe('Close')
    expect(await dialog.getByRole('button').allInnerTexts()).toEqual(['Close'])
    await page.unroute('**/v1/admin/replay')
    await dialog.getByRole('button', { name: 'Close' }).click()
    await expect.poll(async () => (await running.stats())[0]?.dead).toBe(4)

    // Somebody else sends one of them.
    await begin(4)
    await fetch(`${running.adminUrl}/v1/admin/replay`, {
      ...{ method: 'POST', headers: { authorization: `Bearer ${ADMIN_TOKEN}` } },
      body: '{"messageId":"a"}',
    })
    await refusing.has(12)
    await dialog.getByRole('button', { name: 'Send 4 again' }).click()
    await dialog.getByText('Of the 4 dead letters, 3 are left.').waitFor()
    await expect.poll(() => focused(page)).toBe('Send 3 again')
    await page.keyboard.press('Enter')
    await page.getByText('3 deliveries will be sent again.').waitFor()
    await refusing.has(15)
  })

  test('sends the chosen ones alone again', async () => {
    const { running, refusing } = await lived()
    const page = await open(at(running, '#/deliveries?state=dead'), {}, NO_TOKEN)
    await enterToken(page, ADMIN_TOKEN)
    await page.getByRole('checkbox', { name: /^Choose identify of u1/ }).check()
    await page.getByRole('button', { name: 'Send chosen again (1) …' }).click()
    refusing.answer(204)
    await page.getByRole('button', { name: 'Send 1 again' }).click()
    await refusing.has(15)
    expect(refusing.received.at(-1)?.headers['x-message-id']).toBe('known')
    await expect.poll(() => rows(page).count()).toBe(13)
  })

  test('sends a test to a destination, and says what each endpoint answered and what to do', async () => {
    const crm = await endpoint((response, { event }) =>
      response.writeHead(event['type'] === 'delete' ? 404 : 204).end(HOSTILE),
    )
    const settings = settingsFor([destination([crm], { enabled: false })])
    const running = await start(settings)
    for (const colorScheme of ['light', 'dark'] as const) {
      const options = { colorScheme, viewport: { width: 390, height: 800 } }
      const page = await open(at(running, '#/destinations/crm'), options, NO_TOKEN)
      await enterToken(page, ADMIN_TOKEN)
      const card = page.getByRole('region', { name: 'Test', exact: true })
      await card.getByText('although it is disabled').waitFor()
      for (const type of ['identify', 'page', 'screen', 'group', 'alias']) {
        await card.getByRole('checkbox', { name: type }).uncheck()
      }
      await card.getByRole('button', { name: 'Send a test' }).click()
      await card.getByText('Not every endpoint accepts these messages.').waitFor()
      await card
        .getByText('Check the host and the path of the URL: the server has nothing there.')
        .waitFor()
      expect(await card.locator('.attempt-line').count()).toBe(2)
      await card.getByText('Request and answer of delete').click()
      await card
        .getByText('X-Signature: HMAC-SHA1 of the body with the sharedSecret')
        .last()
        .waitFor()
      await card.getByText(HOSTILE).last().waitFor()
      expect(await barriers(page)).toEqual([])
      expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(390)
    }
    expect(crm.received.map(({ event }) => event['type'])).toEqual([
      ...['track', 'delete', 'track', 'delete'],
    ])
    expect(crm.received.every(({ headers }) => 'x-hookline-test' in headers)).toBe(true)
  })

  test('pauses a destination with a reason, says so everywhere, and resumes it', async () => {
    const crm = await endpoint()
    const running = await start(settingsFor([destination([crm])]))
    const options = { colorScheme: 'dark', viewport: { width: 390, height: 800 } } as const
    const page = await open(at(running, '#/destinations/crm'), options, NO_TOKEN)
    await enterToken(page, ADMIN_TOKEN)
    await page.getByLabel('Reason').fill(HOSTILE)
    await page.getByRole('button', { name: 'Pause' }).click()
    await page.getByRole('heading', { name: 'Paused' }).waitFor()
    await page.getByText('crm is paused.').waitFor()
    await page.locator('.pill.health-paused').first().waitFor()
    await page.getByText('Nothing is sent while the destination is paused.').waitFor()
    await post(running, [track('held')])
    expect(await barriers(page)).toEqual([])
    expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(390)
    await visit(page, '#/')
    await page.locator('.sentence.warn', { hasText: `Paused since` }).waitFor()
    await page.getByText(HOSTILE).first().waitFor()
    await visit(page, '#/messages/held')
    await page.getByText('No attempt is made while the destination is paused.').waitFor()
    expect(crm.received).toEqual([])
    await visit(page, '#/destinations/crm')
    await page.getByRole('button', { name: 'Resume' }).click()
    await crm.has(1)
    await page.getByRole('heading', { name: 'Pause', exact: true }).waitFor()
  })

  test('says no longer that it has no answer once the pause whose answer was lost is known', async () => {
    const running = await start(settingsFor([destination([await endpoint()])]))
    const page = await open(at(running, '#/destinations/crm'), {}, LOST)
    await enterToken(page, ADMIN_TOKEN)
    await page.route(/\/(?:pause|resume)$/, async (route) => {
      await route.fetch()
      await route.abort()
    })
    const failure = page.getByText('The destination does not answer.')
    await page.getByLabel('Reason').fill('maintenance')
    await page.getByRole('button', { name: 'Pause' }).click()
    await page.getByText('crm is paused.').waitFor()
    expect(await failure.count()).toBe(0)
    await page.getByRole('button', { name: 'Resume' }).click()
    await page.getByText('crm gets its messages again.').waitFor()
    expect(await failure.count()).toBe(0)
    expect(await page.getByLabel('Reason').inputValue()).toBe('')
  })

  test('changes its mind with Esc or the way back, and sends nothing', async () => {
    const { running, refusing } = await lived()
    const page = await open(at(running, '#/deliveries?state=dead'), {}, LOST)
    await enterToken(page, ADMIN_TOKEN)
    await page.getByRole('button', { name: 'Send all again …' }).click()
    await page.getByText('14 dead letters would be sent again.').waitFor()
    await page.keyboard.press('Escape')
    await page.getByRole('dialog').waitFor({ state: 'hidden' })
    expect(refusing.received).toHaveLength(14)

    // Another view closes the question too, however it is reached.
    await visit(page, '#/')
    await visit(page, '#/deliveries?state=dead')
    await page.getByRole('button', { name: 'Send all again …' }).click()
    await page.getByText('14 dead letters would be sent again.').waitFor()
    await page.evaluate('history.back()')
    await page.getByRole('heading', { name: 'Overview', exact: true }).waitFor()
    await page.getByRole('dialog').waitFor({ state: 'hidden' })
    expect(refusing.received).toHaveLength(14)

    // What was under way by then is told all the same.
    const held: (() => void)[] = []
    await visit(page, '#/deliveries?state=dead')
    await page.getByRole('button', { name: 'Send all again …' }).click()
    await page.getByText('14 dead letters would be sent again.').waitFor()
    await page.route('**/v1/admin/replay', async (route) => {
      await new Promise<void>((resolve) => held.push(resolve))
      await route.abort()
    })
    await page.getByRole('button', { name: 'Send 14 again' }).click()
    await expect.poll(() => held.length).toBe(1)
    await page.evaluate('history.back()')
    await page.getByRole('dialog').waitFor({ state: 'hidden' })
    held.shift()?.()
    await page.getByText('It may have sent them.').waitFor()
  })

  test('shows one delivery: its body, each attempt in words, what is next and how long it has', async () => {
    const { running, down } = shared
    const page = await open(at(running, '#/search?q=other-3'), {
      permissions: ['clipboard-read', 'clipboard-write'],
    })
    await page.getByRole('link', { name: 'warehouse' }).click()
    await page.getByText('left of the 4-hour retry window').waitFor()
    await page.getByText('"event": "Signed Up"').waitFor()
    await page.getByRole('button', { name: 'Copy the body' }).click()
    await page.getByText('Copied the body.').waitFor()
    const sent = down.received.find(({ headers }) => headers['x-message-id'] === 'other-3')
    const copied = await page.evaluate<string>('navigator.clipboard.readText()')
    expect(JSON.parse(copied)).toMatchObject({ userId: 'u3', event: 'Signed Up' })
    if (sent) expect(copied).toBe(sent.body)
  })

  test('shows what an endpoint answered, and that it was given up', async () => {
    const { running } = shared
    const page = await open(at(running, '#/messages/hostile'))
    await page.getByText('Given up after 1 attempt').waitFor()
    await page.getByText('400 permanently refused').waitFor()
    await page.getByText(`no: ${HOSTILE}`).waitFor()
  })

  test('finds calls by message id, user and event', async () => {
    const { running } = shared
    const page = await open(at(running, ''))
    const find = async (text: string, way: string, many: number) => {
      await page.keyboard.press('/')
      await page.keyboard.press('Control+a')
      await page.keyboard.type(text)
      await page.keyboard.press('Enter')
      const found = page.getByRole('region', { name: way })
      await found.getByRole('heading', { name: text }).waitFor()
      await expect.poll(() => found.locator('a.row').count()).toBe(many)
      await page.locator('#search').blur()
    }
    await find('refused-1', 'Message id', 3)
    await find('u7', 'User id', 3)
    await find('Signed Up', 'Event', 10)
    await find('signed', 'Event', 10)
    await find('REFUSED-2', 'Message id', 3)
  })

  test('shows calls and deliveries as they happen, and holds still when paused', async () => {
    const { running } = shared
    const page = await open(at(running, '#/live'))
    await page.getByText('new events appear here at once').waitFor()
    await post(running, [track('live-1', { event: 'Seen Live' })])
    await page.getByRole('link', { name: /call track “Seen Live” u1 from web accepted/ }).waitFor()
    await page.getByRole('link', { name: /204 .*live-1 to crm delivered/ }).waitFor()
    await page.getByRole('button', { name: 'Pause' }).click()
    await post(running, [track('live-2', { event: 'Not Seen' })])
    await page.getByText(/events? not shown/).waitFor()
    expect(await page.getByText('Not Seen').count()).toBe(0)
  })

  test('shows what happens while its tab is visible, and says for which time it did not', async () => {
    const { running } = shared
    const turn = (tab: Page, isVisible: boolean) =>
      tab.evaluate(
        `Object.defineProperty(document, 'hidden', { value: ${!isVisible}, configurable: true })
        document.dispatchEvent(new Event('visibilitychange'))`,
      )
    const isLive = (tab: Page) => tab.getByText('new events appear here at once').waitFor()
    const hide = async (tab: Page) => {
      await turn(tab, false)
      await tab.clock.fastForward(60_000)
    }
    const page = await open(at(running, '#/live'))
    await page.clock.install()
    await isLive(page)
    // A browser has six connections to a host. Tabs in the background take none of them.
    for (let i = 0; i < 6; i++) {
      const tab = await page.context().newPage()
      await tab.goto(at(running, '#/live'))
      await isLive(tab)
      await tab.clock.install()
      await hide(tab)
    }
    await post(running, [track('v-1', { event: 'Before' })])
    await page.getByRole('link', { name: /“Before”/ }).waitFor()
    await turn(page, false)
    await post(running, [track('v-4', { event: 'Soon' })])
    await page.getByRole('link', { name: /“Soon”/ }).waitFor()
    await turn(page, true)
    await hide(page)
    await post(running, [track('v-2', { event: 'Meanwhile' })])
    await turn(page, true)
    await page.getByText(/^Not followed from [\d:]+ to [\d:]+: what happened then/).waitFor()
    await post(running, [track('v-3', { event: 'Afterwards' })])
    await page.getByRole('link', { name: /“Afterwards”/ }).waitFor()
    expect(await page.getByText('“Before”').count()).toBe(1)
    expect(await page.getByText('“Meanwhile”').count()).toBe(0)
    expect(await barriers(page)).toEqual([])
  })

  test('says that an answer is late, also in a dialog, and waits for it', async () => {
    const refusing = await endpoint(422)
    const running = await start(settingsFor([destination([refusing], { name: 'ads' })]))
    await post(running, [track('a')])
    await refusing.has(1)
    const page = await open(at(running, '#/deliveries?state=dead'), {}, NO_TOKEN)
    await enterToken(page, ADMIN_TOKEN)
    await page.clock.install()
    const held: (() => void)[] = []
    await page.route('**/v1/admin/replay', async (route) => {
      await new Promise<void>((resolve) => held.push(resolve))
      await route.continue()
    })
    await page.getByRole('button', { name: 'Send all again …' }).click()
    await expect.poll(() => held.length).toBe(1)
    expect(await page.getByRole('alert').allInnerTexts()).toEqual([])
    await page.clock.fastForward(10_000)
    const late = page.getByText('A request has had no answer for 10 s, and the page waits for it.')
    await expect.poll(() => late.count()).toBe(2)
    expect(await page.getByRole('dialog').getByRole('alert').count()).toBe(1)
    held.shift()?.()
    await page.getByText('1 dead letter would be sent again.').waitFor()
    await late.first().waitFor({ state: 'detached' })
    expect(await late.count()).toBe(0)
  })

  test('stays usable under a storm: the list is bounded, however much comes at once', async () => {
    const running = await start(settingsFor([destination([await endpoint()])], READ_ONLY))
    const page = await open(running.adminUrl)
    const call = (i: number) => ({
      at: 0,
      source: 'web',
      type: 'track',
      event: `E${i}`,
      user: 'u',
      messageId: `m${i}`,
    })
    const storm = Array.from(
      { length: 20_000 },
      (_, i) => `event: call\ndata: ${JSON.stringify(call(i))}\n\n`,
    )
    await page.route('**/v1/admin/stream', (route) =>
      route.fulfill({ contentType: 'text/event-stream', body: storm.join('') }),
    )
    await page.getByRole('navigation').getByRole('link', { name: 'Live', exact: true }).click()
    await page.getByText('“E19999”').waitFor()
    expect(await rows(page).count()).toBeLessThanOrEqual(200)
    await page.getByRole('link', { name: 'Overview' }).click()
    await page.getByRole('heading', { name: 'Overview' }).waitFor()
  })

  test('is used with the keyboard alone', async () => {
    const { running } = shared
    const page = await open(at(running, '#/deliveries?state=dead'))
    await rows(page).first().waitFor()
    await page.keyboard.press('j')
    await page.keyboard.press('j')
    const second = await focused(page)
    expect(second).toBe(await rows(page).nth(1).innerText())
    await page.keyboard.press('k')
    expect(await focused(page)).toBe(await rows(page).nth(0).innerText())
    await page.keyboard.press('j')
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { name: /^Delivery \d+$/ }).waitFor()
    await page.keyboard.press('Escape')
    await page.getByRole('heading', { name: 'Dead letters' }).waitFor()
    await expect.poll(() => focused(page)).toBe(second)
    await page.keyboard.press('/')
    expect(await focused(page)).toBe('search')
    await page.keyboard.type('j')
    expect(await page.locator('#search').inputValue()).toBe('j')
  })

  test('keeps its look over a reload when it was chosen, and moves nothing for who wants that', async () => {
    const running = await start(settingsFor([], READ_ONLY))
    const page = await open(running.adminUrl, { colorScheme: 'light', reducedMotion: 'reduce' })
    const ground = () => page.evaluate<string>('getComputedStyle(document.body).backgroundColor')
    const light = await ground()
    await page.getByRole('button', { name: 'Colours: Auto' }).click()
    await page.getByRole('button', { name: 'Colours: Light' }).click()
    const dark = await ground()
    expect(dark).not.toBe(light)
    await page.reload()
    await page.getByRole('button', { name: 'Colours: Dark' }).waitFor()
    expect(await ground()).toBe(dark)
    expect(
      await page.evaluate(
        'Math.max(...Array.from(document.querySelectorAll("*"), (e) => parseFloat(getComputedStyle(e).transitionDuration)))',
      ),
    ).toBe(0)
  })

  test('shows nothing of anybody without the token, asks for it once, and shows nothing when it is forgotten', async () => {
    const { running } = await lived()
    const page = await open(at(running, '#/deliveries'), { reducedMotion: 'reduce' }, NO_TOKEN)
    await page.getByText('Calls contain personal data').waitFor()
    expect(await page.getByText('u1').count()).toBe(0)
    expect(await barriers(page)).toEqual([])
    await enterToken(page, ADMIN_TOKEN)
    await rows(page).first().waitFor()
    await page.reload()
    await rows(page).first().waitFor()
    expect(await page.evaluate('localStorage.length')).toBe(0)
    await page.getByRole('button', { name: 'Replay allowed' }).click()
    await page.getByRole('button', { name: 'Forget the token' }).click()
    await page.getByText('Calls contain personal data').waitFor()
    expect(await rows(page).count()).toBe(0)
  })

  test('says what is wrong with a token, and keeps it while the destination is away', async () => {
    const { running } = await lived()
    const page = await open(at(running, '#/deliveries'), {}, LOST)
    const field = page.getByLabel('Admin token')
    const wrong = page.getByRole('alert')
    await enterToken(page, 'tok€n-•••')
    await wrong.filter({ hasText: 'only ASCII characters without spaces' }).waitFor()
    expect(await field.inputValue()).toBe('tok€n-•••')
    await page.route('**/v1/admin/**', (route) => route.abort())
    await enterToken(page, ADMIN_TOKEN)
    await wrong.filter({ hasText: 'The destination does not answer.' }).first().waitFor()
    await field.waitFor({ state: 'detached' })
    await page.unroute('**/v1/admin/**')
    await field.waitFor()
    expect(await field.inputValue()).toBe(ADMIN_TOKEN)
    await page.getByRole('button', { name: 'Use token' }).click()
    await rows(page).first().waitFor()
    expect(await wrong.count()).toBe(0)
  })

  test('says how to open it if the settings have no token, and it is not at a loopback address of its own', async () => {
    const running = await start(settingsFor([], { adminToken: undefined }))
    const page = await open(running.adminUrl, {}, /status of 403/)
    await page.getByText('The settings have no adminToken').waitFor()
    const { port } = new URL(shared.running.adminUrl)
    const byName = await open(`http://${NAME}:${port}/#/deliveries`, {}, /status of 403/)
    await byName.getByText('The settings have no adminToken').waitFor()
    expect(await byName.getByText('u1').count()).toBe(0)
  })

  test('shows what callers and endpoints write as text, wherever it stands', async () => {
    const { running } = shared
    const page = await open(running.adminUrl)
    for (const hash of [
      '#/deliveries',
      '#/deliveries?state=dead',
      '#/messages/hostile',
      '#/messages/known',
      `#/search?q=${encodeURIComponent(HOSTILE)}`,
    ]) {
      await page.goto(at(running, hash))
      await page.getByText(HOSTILE).first().waitFor()
      expect(await page.locator('img').count()).toBe(0)
    }
  })

  test('says so when the destination is gone, and goes on when it is back', async () => {
    const running = await start(settingsFor([destination([await endpoint()])], READ_ONLY))
    const page = await open(running.adminUrl, {}, /ERR_|Failed to load resource/)
    await page.getByRole('heading', { name: 'No call yet since the start' }).waitFor()
    await page.context().setOffline(true)
    await page.getByRole('alert').filter({ hasText: 'The destination does not answer' }).waitFor()
    await page.context().setOffline(false)
    await page.getByRole('alert').waitFor({ state: 'detached' })
  })

  test('says that its data is old while a proxy or the destination answers with an error', async () => {
    const running = await start(settingsFor([destination([await endpoint()])], READ_ONLY))
    const page = await open(running.adminUrl, {}, /Failed to load resource/)
    await page.getByRole('heading', { name: 'No call yet since the start' }).waitFor()
    const internal = { code: 'internal_error', message: 'The destination has failed.' }
    const answers = [
      [{ status: 502, contentType: 'text/html', body: '<h1>Bad Gateway</h1>' }, 'the status 502.'],
      [{ status: 500, json: { error: internal } }, internal.message],
      // A login that a proxy shows once its session is over.
      [
        { contentType: 'text/html', body: '<h1>Log in</h1>' },
        'Something other than the destination',
      ],
    ] as const
    for (const [answer, message] of answers) {
      await page.route('**/v1/admin/**', (route) => route.fulfill(answer))
      const alert = page.getByRole('alert').filter({ hasText: message })
      await alert.filter({ hasText: /The page shows data that is \d+ s old/ }).waitFor()
      await page.unroute('**/v1/admin/**')
      await page.getByRole('alert').waitFor({ state: 'detached' })
    }
  })

  test('says that a view failed, and shows the others', async () => {
    const page = await open(at(shared.running, '#/'), {}, /TypeError/)
    const answer = (route: Route) => route.fulfill({ json: { deliveries: [{}] } })
    await page.route('**/v1/admin/messages*', answer)
    await visit(page, '#/messages/other-0')
    await page
      .getByText(/This is a defect of the page, .* TypeError: .* Please report it/)
      .waitFor()
    await visit(page, '#/deliveries')
    await rows(page).first().waitFor()

    await page.goBack()
    await page.getByRole('heading', { name: 'This view failed' }).waitFor()
    await page.unroute('**/v1/admin/messages*', answer)
    await page.getByRole('button', { name: 'Show it again' }).click()
    await page.getByRole('heading', { name: 'Message' }).waitFor()
    await page.getByText('other-0').first().waitFor()
  })

  test('says which delivery there is not', async () => {
    const running = await start(settingsFor([], READ_ONLY))
    const page = await open(at(running, '#/deliveries/77'), {}, /status of 404/)
    await page.getByRole('alert').filter({ hasText: '77' }).waitFor()
    await page.getByRole('link', { name: 'Show all deliveries' }).waitFor()
  })

  test('says that an endpoint fails which refuses everything, although its breaker is closed', async () => {
    const page = await open(at(shared.running, ''))
    const row = page.locator('tr', { hasText: 'ads' })
    await row.getByText('failing 100 %').waitFor()
    const sentence = page.locator('.sentence.bad', { hasText: 'ads:' })
    await sentence.getByText('fails 100 %').waitFor()
    await sentence.getByRole('link').click()
    await page.getByRole('link', { name: 'Remove the filter permanently refused' }).waitFor()
    await expect.poll(() => rows(page).count()).toBeGreaterThan(0)
    expect(await page.locator('.row .where').allInnerTexts()).not.toContain('crm')
  })

  test('has a table of the destinations that is sorted and searched, and leads to each', async () => {
    const page = await open(at(shared.running, ''))
    const names = () => page.locator('tbody th a').allInnerTexts()
    await page.getByRole('button', { name: 'Destination' }).click()
    await expect.poll(names).toEqual(['ads', 'crm', 'warehouse'])
    await page.getByRole('button', { name: 'Destination' }).click()
    await expect.poll(names).toEqual(['warehouse', 'crm', 'ads'])
    await page.getByRole('columnheader', { name: 'Destination' }).waitFor()
    await page.getByLabel('Search destinations by name or URL').fill('CR')
    await expect.poll(names).toEqual(['crm'])
    await page.getByRole('link', { name: 'crm' }).click()
    await page.getByRole('heading', { name: 'crm' }).waitFor()
    await page.getByText('receives from web').waitFor()
  })

  test('says how many calls the filters of a destination stopped, and why', async () => {
    const filters = [{ events: { deny: ['Order Viewed'] } }]
    const settings = settingsFor([destination([await endpoint()], { filters })], READ_ONLY)
    const running = await start(settings)
    await post(running, [track('m1'), track('m2', { event: 'Order Viewed' })])
    const page = await open(at(running, '#/destinations/crm'))
    const figure = page.locator('.total', { hasText: 'Filtered' })
    await figure.getByText('of 2 calls').waitFor()
    await figure.getByRole('link', { name: '1' }).click()
    const reason = 'iltered: the event is denied by "Order Viewed" (filters[0].events.deny)'
    await page.getByText(reason).click()
    await page.getByText(`Not sent: f${reason}.`).waitFor()
  })

  test('draws charts of an hour, a day and a week, and has their numbers as a table', async () => {
    const page = await open(at(shared.running, '#/destinations/crm'))
    for (const [span, title] of [
      ['1 h', 'Requests per minute'],
      ['24 h', 'Requests per 15 minutes'],
      ['7 d', 'Requests per hour'],
    ]) {
      await page
        .getByRole('navigation', { name: 'Time span' })
        .getByText(span ?? '')
        .click()
      const chart = page.getByRole('img', { name: `crm: ${title ?? ''}` })
      await chart.locator('canvas').waitFor()
      await page.locator('.legend', { hasText: /delivered\s*(?:1[4-9]|2\d)/ }).waitFor()
    }
    await page.getByText('The numbers').first().click()
    await page.getByRole('columnheader', { name: 'p99' }).waitFor()
  })

  test('filters the list by status, time and outcome, and each filter can be removed', async () => {
    const page = await open(at(shared.running, '#/deliveries?event=Signed%20Up'))
    await rows(page).first().waitFor()
    await page.getByRole('button', { name: 'Filter' }).click()
    await page.getByLabel('HTTP status').fill('4xx')
    await page.getByLabel('HTTP status').press('Enter')
    await page.getByRole('link', { name: 'Remove the filter status: 4xx' }).waitFor()
    await expect.poll(() => rows(page).count()).toBe(12)
    await page.goto(
      at(
        shared.running,
        '#/deliveries?event=Signed%20Up&status=4xx&range=15m&user=U1&match=prefix',
      ),
    )
    await expect.poll(() => rows(page).count()).toBe(4)
    await page.getByRole('link', { name: 'Remove the filter user starts with U1' }).click()
    await expect.poll(() => rows(page).count()).toBe(12)
    await page.getByRole('link', { name: 'Clear' }).click()
    await expect.poll(() => rows(page).count()).toBeGreaterThan(12)
  })

  test('keeps the whole user of a link when another part of the filter is changed', async () => {
    const refusing = await endpoint(422)
    const running = await start(settingsFor([destination([refusing])], READ_ONLY))
    const users = ['u1', 'u10', 'U1x']
    await post(
      running,
      users.map((userId) => track(userId, { userId })),
    )
    await refusing.has(3)
    const page = await open(at(running, '#/deliveries?user=u1'))
    await rows(page).first().waitFor()
    await page.getByRole('button', { name: 'Filter' }).click()
    await page.getByLabel('State').selectOption('dead')
    await page.getByRole('link', { name: 'Remove the filter dead letters' }).waitFor()
    await page.getByRole('link', { name: 'Remove the filter user: u1' }).waitFor()
    await expect.poll(() => rows(page).count()).toBe(1)
    await page.getByLabel('User id', { exact: true }).fill('U1')
    await page.keyboard.press('Enter')
    await page.getByRole('link', { name: 'Remove the filter user starts with U1' }).waitFor()
    await expect.poll(() => rows(page).count()).toBe(3)
    await page.getByLabel('Type').selectOption('track')
    await page.getByRole('link', { name: 'Remove the filter user starts with U1' }).waitFor()
  })

  test('counts the calls of all sources, and filters by each of them', async () => {
    const sources = Array.from({ length: 40 }, (_, i) => ({
      name: `s${i + 10}`,
      writeKey: `k${i}`,
    }))
    const crm = destination([await endpoint()], { sources: sources.map(({ name }) => name) })
    const running = await start(settingsFor([crm], { ...READ_ONLY, sources }))
    for (const { writeKey } of sources) await post(running, [track(`of-${writeKey}`)], writeKey)
    const page = await open(at(running, ''))
    await page.getByText('Everything is healthy. 40 calls accepted').waitFor()
    await page.getByRole('link', { name: '28 more sources' }).click()
    await page.getByText('1 to 25 of 40').waitFor()
    await visit(page, '#/deliveries')
    await page.getByRole('button', { name: 'Filter' }).click()
    const suggested = () =>
      page.evaluate<string[]>(
        'Array.from(document.querySelectorAll("#source-options option"), (one) => one.value)',
      )
    await expect.poll(suggested).toHaveLength(20)
    await page.getByLabel('Source').fill('S4')
    await expect.poll(suggested).toEqual(sources.slice(30).map(({ name }) => name))
    await page.getByLabel('Source').fill('s49')
    await page.getByLabel('Source').press('Enter')
    await page.getByRole('link', { name: 'Remove the filter source: s49' }).waitFor()
    await expect.poll(() => rows(page).count()).toBe(1)
  })

  test('shows new deliveries by itself', async () => {
    const running = await start(settingsFor([destination([await endpoint()])], READ_ONLY))
    const page = await open(at(running, '#/deliveries'))
    await page.getByText('No delivery has been stored yet.').waitFor()
    await post(running, [track('new-1', { event: 'Just Now' })])
    await page.getByText('track “Just Now”').waitFor()
    await page.locator('.row', { hasText: 'delivered' }).waitFor()
    expect(await page.locator('.row .what').getAttribute('title')).toBe('track “Just Now”')
    expect(await page.locator('.row time').getAttribute('title')).toMatch(/20\d\d.*Z\)$/)
  })

  test('leaves no delivery out of a list when many come at once', async () => {
    const running = await start(settingsFor([destination([await endpoint()])], READ_ONLY))
    const page = await open(at(running, '#/deliveries'))
    await page.getByText('No delivery has been stored yet.').waitFor()
    const send = (from: number) =>
      post(
        running,
        Array.from({ length: 120 }, (_, i) => track(`m${from + i}`, { event: `e${from + i}` })),
      )
    const older = page.getByRole('button', { name: 'Show older' })
    const shown = () => numbersShown(page)
    const down = (from: number) => Array.from({ length: from + 1 }, (_, i) => from - i)
    await send(0)
    await expect.poll(shown).toEqual(down(119).slice(0, 50))
    await older.click()
    await expect.poll(shown).toEqual(down(119).slice(0, 100))
    await page.evaluate('scrollTo(0, 0)')
    await send(120)
    await expect.poll(shown).toEqual(down(239).slice(0, 50))

    // It is offered to who reads further down.
    await older.click()
    await expect.poll(shown).toHaveLength(100)
    await page.evaluate('scrollTo(0, 1000)')
    await send(240)
    const newest = page.getByRole('button', { name: 'Show the newest deliveries' })
    await newest.waitFor()
    expect(await shown()).toEqual(down(239).slice(0, 100))
    await newest.click()
    await expect.poll(shown).toEqual(down(359).slice(0, 50))
    for (let rows = 100; rows <= 360; rows += 50) {
      await older.click()
      await expect.poll(shown).toEqual(down(359).slice(0, rows))
    }
    await older.click()
    await expect.poll(shown).toEqual(down(359))
    expect(await older.count()).toBe(0)

    // Who looks at one of them comes back to the same place.
    await rows(page).filter({ hasText: '“e130”' }).click()
    await page.getByRole('heading', { name: /^Delivery \d+$/ }).waitFor()
    await page.goBack()
    await expect.poll(() => focused(page)).toContain('“e130”')
    expect(await shown()).toEqual(down(359))
  })

  test('puts what matches later into its place in the list', async () => {
    const held: ServerResponse[] = []
    const refusing = await endpoint((response, { body }) => {
      if (body.includes('"e50"')) held.push(response)
      else response.writeHead(400).end()
    })
    const running = await start(settingsFor([destination([refusing])], READ_ONLY))
    const calls = Array.from({ length: 60 }, (_, i) => track(`m${i}`, { event: `e${i}` }))
    await post(running, calls)
    await refusing.has(60)
    const page = await open(at(running, '#/deliveries?state=dead'))
    const shown = () => numbersShown(page)
    const all = Array.from({ length: 51 }, (_, i) => 59 - i)
    await expect.poll(shown).toEqual(all.filter((event) => event !== 50))
    for (const response of held) response.writeHead(400).end()
    await expect.poll(shown).toEqual(all)
  })

  test('keeps the filter open while it is filled in, with the keyboard alone', async () => {
    const page = await open(at(shared.running, '#/deliveries'))
    await rows(page).first().waitFor()
    await page.getByRole('button', { name: 'Filter' }).click()
    const form = page.getByRole('form', { name: 'Filter' })
    await form.getByLabel('State').selectOption('dead letters')
    await page.getByRole('link', { name: 'Remove the filter dead letters' }).waitFor()
    await form.getByLabel('Received').selectOption('from … until …')
    await form.getByRole('textbox', { name: 'From' }).focus()
    await page.keyboard.type('0102202600') // a part of the time is no filter yet
    await form.getByRole('textbox', { name: 'From' }).fill('2026-01-02T00:00')
    expect(page.url()).not.toContain('since')
    await form.getByRole('textbox', { name: 'Until' }).focus()
    await page.getByRole('link', { name: /^Remove the filter from/ }).waitFor()
    expect(await page.evaluate('document.activeElement.name')).toBe('until')
    await form.getByRole('textbox', { name: 'Until' }).fill('2099-01-02T00:00')
    await page.keyboard.press('Enter')
    await page.getByRole('link', { name: /^Remove the filter until/ }).waitFor()
    expect(await page.evaluate('document.activeElement.name')).toBe('until')
    expect(await barriers(page)).toEqual([])

    // What changes the filter beside the form is in the form too.
    await page.getByRole('link', { name: 'Remove the filter dead letters' }).click()
    await expect.poll(() => form.getByLabel('State').inputValue()).toBe('')
    await page.goBack()
    await expect.poll(() => form.getByLabel('State').inputValue()).toBe('dead')
    await form.getByLabel('Type').selectOption('delete')
    await page.getByText('No dead letter matches this filter.').waitFor()
  })

  test.each(['since=1h', 'until=99999999999999999', 'since=2026-11-26T10:00:00Z&state=dead'])(
    'an address with %s, which is no time, says so and leads on',
    async (query) => {
      const page = await open(at(shared.running, `#/deliveries?${query}`), {}, /status of 400/)
      await page.getByRole('link', { name: /^Remove the filter (from|until) “/ }).waitFor()
      await page.getByRole('button', { name: 'Filter' }).click()
      await page.getByRole('form', { name: 'Filter' }).waitFor()
      if (query.startsWith('since')) {
        await page.getByRole('alert').filter({ hasText: 'since' }).waitFor()
      }
      await page.getByRole('link', { name: 'Overview' }).click()
      await page.getByRole('heading', { name: 'Overview' }).waitFor()
    },
  )

  test('copies also where the browser has no clipboard for pages, as without https', async () => {
    const { running } = await lived()
    const { port } = new URL(running.adminUrl)
    const page = await open(`http://${NAME}:${port}/#/deliveries/1`, {}, NO_TOKEN)
    await enterToken(page, ADMIN_TOKEN)
    await page.getByRole('button', { name: 'Copy as curl' }).click()
    await page.getByText(/^Copied the/).waitFor()
    await page.evaluate('document.body.append(document.createElement("textarea"))')
    await page.locator('body > textarea').focus()
    await page.keyboard.press('Control+V')
    expect(await page.locator('body > textarea').inputValue()).toMatch(/^curl .*\n.+/)
  })

  test('groups dead letters by cause, and sends one group again', async () => {
    const refusing = await endpoint((response, { headers }) => {
      const isOdd = String(headers['x-message-id']).startsWith('odd')
      response.writeHead(422).end(isOdd ? '{"message":"Odd"}' : '{"message":"Unknown event type"}')
    })
    const running = await start(settingsFor([destination([refusing], { name: 'ads' })]))
    await post(running, [track('odd'), track('a'), track('b'), track('c')])
    await refusing.has(4)
    const page = await open(at(running, '#/deliveries?state=dead'), {}, NO_TOKEN)
    await enterToken(page, ADMIN_TOKEN)
    const group = page.locator('.groups li', { hasText: 'Unknown event type' })
    await group.getByText('3 ×').waitFor()
    await group.getByRole('button', { name: 'Send again' }).click()
    await page.getByText('3 dead letters would be sent again.').waitFor()
    refusing.answer(204)
    await page.getByRole('button', { name: 'Send 3 again' }).click()
    await refusing.has(7)
    await page.getByText('3 deliveries will be sent again.').waitFor()
    await page.getByText('3 deliveries will be sent again.').waitFor({ state: 'detached' })
    await page.locator('.groups li', { hasText: 'Odd' }).getByRole('link').click()
    await page.getByRole('link', { name: 'Remove the filter “Odd”' }).waitFor()
    await expect.poll(() => rows(page).count()).toBe(1)
  })

  test('asks for a token that is no longer right, and then goes on where it was', async () => {
    const settings = (await lived()).running
    const page = await open(at(settings, '#/deliveries?state=dead'), {}, /status of 401/)
    await enterToken(page, ADMIN_TOKEN)
    await page.getByRole('checkbox', { name: /^Choose identify of u1/ }).check()
    await page.getByRole('button', { name: 'Send chosen again (1) …' }).click()
    await page.getByRole('button', { name: 'Send 1 again' }).waitFor()
    const forget = (route: Route) =>
      route.fulfill({
        status: 401,
        body: '{"error":{"code":"wrong_admin_token","message":"The token has changed."}}',
      })
    await page.route('**/v1/admin/**', forget)
    await page.getByText('Calls contain personal data').waitFor()
    await page.unroute('**/v1/admin/**', forget)
    await enterToken(page, ADMIN_TOKEN)
    await page.getByRole('button', { name: 'Send 1 again' }).click()
    await page.getByText('1 delivery will be sent again.').waitFor()
  })

  test('joins equal answers, compares those that differ, folds JSON, and copies a request as curl', async () => {
    const answers: Answer[] = [
      ...Array.from({ length: 2 }, (): Answer => (response) => {
        response
          .writeHead(422, { 'x-seen': 'yes' })
          .end('{"error":{"message":"First"},"trace":1234567890123456789}')
      }),
      (response) => {
        response.writeHead(400).end('{"error":{"message":"Second"}}')
      },
    ]
    const refusing = await endpoint(...answers)
    const running = await start(settingsFor([destination([refusing])]))
    await post(running, [track('m1')])
    const replay = async (times: number) => {
      await refusing.has(times)
      await expect
        .poll(async () => {
          const response = await fetch(`${running.adminUrl}/v1/admin/replay`, {
            method: 'POST',
            headers: { authorization: `Bearer ${ADMIN_TOKEN}` },
            body: '{"ids":[1]}',
          })
          return ((await response.json()) as { replayed: number }).replayed
        })
        .toBe(1)
    }
    await replay(1)
    await replay(2)
    await refusing.has(3)
    const page = await open(
      at(running, '#/deliveries/1'),
      { permissions: ['clipboard-read', 'clipboard-write'] },
      NO_TOKEN,
    )
    await enterToken(page, ADMIN_TOKEN)
    await page.getByText('2 × attempts 1 to 2').waitFor()
    await page.getByText('What changed since attempt 2').click()
    await page.locator('.diff-new', { hasText: '"message": "Second"' }).waitFor()
    await page.getByText('Headers of the answer').first().click()
    await page.getByText('x-seen').waitFor()
    const answer = page.getByLabel('Start of the answer').first()
    await answer.getByText('1234567890123456789').waitFor()
    await page.locator('.diff-old', { hasText: '"trace": 1234567890123456789' }).waitFor()
    const body = page.getByLabel('Body, indented')
    await body.getByText('"event"').waitFor()
    await body.locator('summary').first().click()
    expect(await body.getByText('"event"').isVisible()).toBe(false)
    await page.getByRole('button', { name: 'Copy as curl' }).click()
    await page.getByText('Copied the request as curl.').waitFor()
    const copied = await page.evaluate<string>('navigator.clipboard.readText()')
    const signature = String(refusing.received[0]?.headers['x-signature'])
    expect(copied).toContain(`curl '${refusing.url}'`)
    expect(copied).toContain(`X-Signature: ${signature}`)
    expect(copied).toContain(`--data-raw '${refusing.received[0]?.body ?? ''}'`)
    expect(await barriers(page)).toEqual([])
  })

  test('a long event, or one that turns the direction of text, leaves the rest where it is', async () => {
    const running = await start(settingsFor([destination([await endpoint()])], READ_ONLY))
    const turning = '\u202Edenrut'
    await post(running, [
      track('long', { event: 'x'.repeat(10_000) }),
      track('turning', { event: turning }),
    ])
    const page = await open(at(running, '#/deliveries'), { viewport: { width: 400, height: 800 } })
    await expect.poll(() => rows(page).count()).toBe(2)
    const heights = await page.evaluate<number[]>(
      'Array.from(document.querySelectorAll("a.row"), (row) => row.offsetHeight)',
    )
    expect(Math.max(...heights)).toBeLessThan(200)
    const row = rows(page).filter({ hasText: turning })
    expect(await row.locator('.what bdi').innerText()).toBe(turning)
    const [event, closing] = await page.evaluate<[number, number]>(`
      const bdi = Array.from(document.querySelectorAll('.what bdi')).find((one) => one.innerText.includes('denrut'))
      const range = document.createRange()
      range.selectNodeContents(bdi.nextSibling);
      [bdi.getBoundingClientRect().right, range.getBoundingClientRect().left]
    `)
    expect(closing).toBeGreaterThanOrEqual(event - 1)
    await rows(page).filter({ hasText: 'xxx' }).click()
    const again = page.getByRole('button', { name: 'Send again' })
    expect((await again.boundingBox())?.y).toBeLessThan(800)
  })

  test('leads from a delivery to the next one of the list', async () => {
    const page = await open(at(shared.running, '#/deliveries?destination=crm'))
    await rows(page).nth(1).click()
    const title = page.getByRole('heading', { name: /^Delivery \d+$/ })
    const second = await title.innerText()
    await page.getByRole('link', { name: 'Older →' }).click()
    await expect.poll(() => title.innerText()).not.toBe(second)
    await page.getByRole('link', { name: '← Newer' }).click()
    await expect.poll(() => title.innerText()).toBe(second)
  })

  test('keeps nobody out, in light and in dark', async () => {
    // Or colours are looked at while they change.
    const page = await open(shared.running.adminUrl, { reducedMotion: 'reduce' })
    for (const hash of VIEWS) {
      await visit(page, hash)
      await page.emulateMedia({ colorScheme: 'light' })
      expect([hash, await barriers(page)]).toEqual([hash, []])
      await page.emulateMedia({ colorScheme: 'dark' })
      expect([hash, 'dark', await barriers(page, ['color-contrast'])]).toEqual([hash, 'dark', []])
    }
    await page.getByRole('button', { name: 'Read-only' }).click()
    expect(await barriers(page)).toEqual([])
  })

  test('fits a phone: nothing scrolls sideways', async () => {
    const { running } = shared
    const page = await open(running.adminUrl, {
      viewport: { width: 390, height: 844 },
      hasTouch: true,
    })
    for (const hash of VIEWS) {
      await visit(page, hash)
      const width = await page.evaluate('document.documentElement.scrollWidth')
      expect([hash, width]).toEqual([hash, 390])
    }
  })
})
