// The portal as a customer uses it: in a frame of another site, which the program of docs/portal.md shows.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import * as http from 'node:http'
import { createServer } from 'node:net'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import type { Locator, Page } from 'playwright-core'
import { describe, expect, onTestFinished, test } from 'vitest'
import type { RunningDestination } from '../../src/destination.js'
import type { ManagedSetting, PortalLink } from '../../src/model/answers.js'
import { signGuest } from '../../src/operate/portal/token.js'
import type { Settings } from '../../src/settings/settings.js'
import { ask, SETTINGS_KEY } from '../manage/api.js'
import { PATH } from '../openapi/document.js'
import { ADMIN_TOKEN, endpoint, post, settingsFor, start, track } from '../run.js'
import { barriers, chromiumPath, holdChanges, NAME, open, useBrowser } from './browser.js'

/** A destination with a tenant that has deliveries, beside another one. */
async function lived(changes: Partial<Settings> = {}) {
  const [crm, moved, other] = [await endpoint(400), await endpoint(204), await endpoint(400)]
  const settings = settingsFor([], {
    sources: [
      { name: 'acme-shop', writeKey: 'acme', tenant: 'acme' },
      { name: 'other-shop', writeKey: 'other', tenant: 'other' },
    ],
    tenants: [
      { name: 'acme', title: 'Acme Ltd.', portal: { editUrls: true } },
      { name: 'other', portal: { editUrls: false } },
    ],
    settingsKeys: [SETTINGS_KEY],
    ...changes,
  })
  const running = await start(settings)
  for (const [tenant, { url }] of [
    ['acme', crm],
    ['other', other],
  ] as const) {
    const body = { tenant, sources: [`${tenant}-shop`], webhooks: [{ url }] }
    await ask(running, 'PUT', `/destinations/${tenant}-hook`, body)
    await post(running, [track(`${tenant}-1`)], tenant)
  }
  await Promise.all([crm.has(1), other.has(1)])
  return { running, settings, crm, moved }
}

/** The portal of a tenant in a tab of its own. */
async function openAs(
  { adminUrl }: RunningDestination,
  tenant: string,
  hash: string,
  forgiven?: RegExp,
): Promise<Page> {
  const expiresAt = Date.now() + 600_000
  const token = await signGuest(ADMIN_TOKEN, { tenant, by: null, expiresAt })
  const page = await open(`${adminUrl}/portal#token=${token}`, {}, forgiven)
  await page.getByRole('link', { name: 'Acme Ltd.' }).waitFor()
  await page.evaluate(`location.hash = ${JSON.stringify(hash)}`)
  return page
}

/** Publishes a server below a path, as a proxy does that cuts the path off. */
async function publishBelow(path: string, target: () => string): Promise<string> {
  const proxy = http.createServer((request, response) => {
    const { method, headers, url = '' } = request
    if (!url.startsWith(`${path}/`)) {
      response.writeHead(404).end()
      return
    }
    const asked = http.request(target() + url.slice(path.length), { method, headers }, (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.headers)
      answer.pipe(response)
    })
    asked.on('error', () => response.destroy()) // also when a browser goes away before the answer
    response.on('close', () => asked.destroy())
    request.pipe(asked)
  })
  await once(proxy.listen(0, '127.0.0.1'), 'listening')
  onTestFinished(() => {
    proxy.closeAllConnections()
    proxy.close()
  })
  return `http://127.0.0.1:${(proxy.address() as AddressInfo).port}${path}`
}

/** Runs the program of the document. @returns its URL, with the name of another site. */
async function embed(adminUrl: string): Promise<string> {
  const page = readFileSync(join(dirname(PATH), 'portal.md'), 'utf8')
  const [, program = ''] = /```js\n([^]*?)```/.exec(page) ?? []
  const free = createServer().listen(0, '127.0.0.1')
  await once(free, 'listening')
  const { port } = free.address() as AddressInfo
  free.close()
  const folder = mkdtempSync(join(tmpdir(), 'hookline-portal-'))
  const file = join(folder, 'app.mjs')
  writeFileSync(file, program.replace('4100', String(port)))
  const child = spawn(process.execPath, [file], {
    env: { ...process.env, ADMIN_URL: adminUrl, ADMIN_TOKEN },
    stdio: 'inherit',
  })
  onTestFinished(async () => {
    child.kill()
    await once(child, 'exit')
    rmSync(folder, { recursive: true })
  })
  const url = `http://127.0.0.1:${port}/`
  await expect
    .poll(() =>
      fetch(url).then(
        ({ status }) => status,
        () => 0,
      ),
    )
    .toBe(200)
  return `http://${NAME}:${port}/`
}

describe.skipIf(chromiumPath === undefined)('the portal', () => {
  useBrowser()

  test('works in a frame of another site, and shows and changes what is the tenant’s own', async () => {
    const { running, settings, crm, moved } = await lived()
    const app = await embed(running.adminUrl)
    const portal = { frameAncestors: [new URL(app).origin] }
    await running.reload({ ...settings, portal })
    const { host } = new URL(running.adminUrl)
    const page = await open(app, {}, undefined, [host])
    const frame = page.frameLocator('iframe')
    await frame.getByRole('link', { name: 'Acme Ltd.' }).waitFor()
    const [, inner] = page.frames()
    expect(inner?.url()).toBe(`${running.adminUrl}/portal#/`)
    expect(await page.context().cookies()).toEqual([])
    await frame.getByRole('table').getByRole('link', { name: 'acme-hook' }).waitFor()
    expect(await frame.locator('body').innerText()).not.toContain('other')

    await frame
      .getByRole('link', { name: /^Dead letters/ })
      .first()
      .click()
    await frame.locator('a.row').click()
    await frame.getByRole('heading', { name: /^Delivery/ }).waitFor()
    crm.answer(204)
    await frame.getByRole('button', { name: /again/i }).first().click()
    await frame.getByRole('dialog').getByRole('button', { name: 'Send 1 again' }).click()
    await crm.has(2)

    await frame.getByRole('link', { name: 'Overview' }).click()
    await frame.getByRole('table').getByRole('link', { name: 'acme-hook' }).click()
    await frame.getByRole('button', { name: 'Rotate the shared secret' }).click()
    await frame.getByText(/^[0-9a-f]{64}$/).waitFor()
    await frame.getByRole('button', { name: 'I have stored it' }).click()
    await frame.getByRole('button', { name: 'Revoke the old secret …' }).click()
    await frame.getByRole('button', { name: 'Revoke the old secret', exact: true }).click()
    await frame.getByText('Only the new secret is valid now.').waitFor()
    await frame.getByRole('textbox', { name: 'URL', exact: true }).fill(moved.url)
    await frame.getByRole('button', { name: 'Change' }).click()
    await frame.getByText('The URLs are changed.').waitFor()
    await post(running, [track('acme-2')], 'acme')
    await moved.has(1)
    const { body } = await ask(running, 'GET', '/audit?kind=destination&name=acme-hook')
    expect(body.entries[0]).toMatchObject({
      by: 'tenant acme (ada@acme.example)',
      action: 'update',
    })
  })

  test('a double-click makes one new secret, which stays until it is stored, and revokes none', async () => {
    const { running } = await lived()
    const page = await openAs(running, 'acme', '#/destinations/acme-hook')
    const valid = async () => {
      const { body } = await ask(running, 'GET', '/destinations/acme-hook')
      return (body as unknown as ManagedSetting).secrets['sharedSecret']
    }
    const rotate = page.getByRole('button', { name: 'Rotate the shared secret' })
    await rotate.waitFor()
    for (const link of ['Settings', 'Changes']) {
      expect(await page.getByRole('link', { name: link, exact: true }).count()).toBe(0)
    }
    // Waits until the button stays where it is. The second press goes to whatever is there by then.
    const twice = (button: Locator) => button.dblclick({ delay: 150 })
    await twice(rotate)
    const secret = page.getByText(/^[0-9a-f]{64}$/)
    const value = await secret.innerText()
    await page.getByText('Two secrets are valid').waitFor()
    expect(await valid()).toBe(2)
    await page.getByRole('button', { name: 'Copy the shared secret' }).waitFor()

    // Nothing takes the secret away before it is stored, unless somebody says so.
    const url = page.getByRole('textbox', { name: 'URL', exact: true })
    expect((await url.boundingBox())?.width).toBeGreaterThan(600)
    await url.fill('https://b.example.com/')
    await page.getByRole('button', { name: 'Change' }).click()
    await page.getByText('The URLs are changed.').waitFor()
    const dialog = page.getByRole('dialog')
    await page.getByRole('link', { name: 'Overview' }).click()
    await dialog.getByText('You would lose the new shared secret').waitFor()
    await dialog.getByRole('button', { name: 'Stay' }).click()
    expect(await secret.innerText()).toBe(value)

    // The end of the rotation asks first, and presses nothing by itself either.
    await twice(page.getByRole('button', { name: 'Revoke the old secret …' }))
    await dialog.getByText('You have not said yet that you have stored the new one.').waitFor()
    expect(await barriers(page)).toEqual([])
    await dialog.getByRole('button', { name: 'Cancel' }).click()
    expect(await valid()).toBe(2)
    await page.getByRole('button', { name: 'I have stored it' }).click()
    await secret.waitFor({ state: 'detached' })
    await page.getByRole('button', { name: 'Revoke the old secret …' }).click()
    await twice(dialog.getByRole('button', { name: 'Revoke the old secret' }))
    await page.getByText('One secret is valid.').waitFor()
    expect(await valid()).toBe(1)

    // One that is not stored stays beside the next one, and alone once that is taken back.
    await rotate.click()
    await page.getByRole('button', { name: 'Revoke the old secret …' }).click()
    await dialog.getByRole('button', { name: 'Revoke the old secret' }).click()
    await page.getByText('One secret is valid.').waitFor()
    const kept = await secret.innerText()
    await rotate.click()
    await expect.poll(() => secret.count()).toBe(2)
    await page.getByRole('button', { name: 'Take back the new secret …' }).click()
    await dialog.getByText('You have not said yet that you have stored the old one.').waitFor()
    await dialog.getByRole('button', { name: 'Take back the new secret' }).click()
    await page.getByText('One secret is valid.').waitFor()
    expect(await secret.allInnerTexts()).toEqual([kept])
    await page.getByRole('button', { name: 'I have stored it' }).click()

    // The way back closes a question, also if the view stays.
    await page.getByRole('link', { name: 'last 24 h' }).click()
    await rotate.click()
    await page.getByRole('button', { name: 'I have stored it' }).click()
    await page.getByRole('button', { name: 'Revoke the old secret …' }).click()
    await dialog.waitFor()
    await page.evaluate('history.back()')
    await dialog.waitFor({ state: 'detached' })
    expect(await valid()).toBe(2)

    // What was typed is not lost without a question either.
    await url.fill('https://c.example.com/')
    await page.getByRole('link', { name: 'Overview' }).click()
    await dialog.getByText('You would lose the URLs that you typed.').waitFor()
    await dialog.getByRole('button', { name: 'Leave' }).click()
    await page.getByRole('table').getByRole('link', { name: 'acme-hook' }).click()
    expect(await url.inputValue()).toBe('https://b.example.com/')
  })

  test('keeps what was typed after a change by the operator, and says mistakes at their fields', async () => {
    const { running, settings, moved } = await lived()
    const [one, two] = ['https://a.example.com/one', 'https://a.example.com/two']
    const webhooks = [{ url: one }, { url: two }]
    await ask(running, 'PATCH', '/destinations/acme-hook', { webhooks })
    const page = await openAs(running, 'acme', '#/destinations/acme-hook', /status of 4/)
    const second = page.getByRole('textbox', { name: 'URL 2' })
    await second.fill(moved.url)
    await ask(running, 'PATCH', '/destinations/acme-hook', {
      webhooks: [{ url: one }, { url: `${two}b` }],
    })
    const change = page.getByRole('button', { name: 'Change' })
    await change.click()
    await page
      .getByText('Nothing was done: Somebody else has changed acme-hook meanwhile.')
      .waitFor()
    await page.getByText(`Now: ${two}b`).waitFor()
    expect(await second.inputValue()).toBe(moved.url)

    // If the endpoints are others, it says what was typed.
    await ask(running, 'PATCH', '/destinations/acme-hook', { webhooks: [{ url: `${one}c` }] })
    await change.click()
    await page.getByText(`You typed ${moved.url} in place of ${two}b`).waitFor()
    await ask(running, 'PATCH', '/destinations/acme-hook', {
      webhooks: [{ url: one }, { url: `${two}b` }],
    })
    await page.getByRole('textbox', { name: 'URL', exact: true }).fill(one)
    await change.click()
    await second.fill(moved.url)

    // Its own network is refused, in the words of a tenant.
    await running.reload({ ...settings, allowNetworks: [] })
    await change.click()
    const wrong = async () => {
      const ids = (await second.getAttribute('aria-describedby')) ?? ''
      return page.locator(`#${ids.split(' ')[1] ?? ''}`).allInnerTexts()
    }
    await expect
      .poll(wrong)
      .toEqual(['127.0.0.1 is not a public address, so every message would be refused.'])
    expect(await page.locator('main').innerText()).not.toMatch(/webhooks|allowNetworks/)
    expect(await barriers(page)).toEqual([])
    await second.fill('')
    await change.click()
    await expect.poll(wrong).toEqual(['A URL is needed.'])
    await second.fill('https://c.example.com/')
    await change.click()
    await page.getByText('The URLs are changed.').waitFor()
    const { body } = await ask(running, 'GET', '/destinations/acme-hook')
    expect((body as unknown as ManagedSetting).settings['webhooks']).toMatchObject([
      { url: one },
      { url: 'https://c.example.com/' },
    ])
  })

  test('changes one of two URLs that differ in the query alone, and keeps what is typed meanwhile', async () => {
    const { running, crm, moved } = await lived()
    const webhooks = [{ url: `${crm.url}?k=1` }, { url: `${crm.url}?k=2` }]
    await ask(running, 'PATCH', '/destinations/acme-hook', { webhooks })
    const page = await openAs(running, 'acme', '#/destinations/acme-hook')
    const first = page.getByRole('textbox', { name: 'URL 1' })
    const second = page.getByRole('textbox', { name: 'URL 2' })
    await first.fill(moved.url)
    expect(await second.inputValue()).toBe(`${crm.url}?•••`)
    const changes = await holdChanges(page, '**/v1/portal/destinations/acme-hook')
    await page.getByRole('button', { name: 'Change' }).click()
    await changes.asked()
    await second.fill(`${crm.url}?k=3`)
    changes.release()
    await page.getByText('The URLs are changed.').waitFor()
    expect(await first.inputValue()).toBe(moved.url)
    expect(await second.inputValue()).toBe(`${crm.url}?k=3`)
    const before = crm.received.length
    await post(running, [track('acme-2')], 'acme')
    await Promise.all([moved.has(1), crm.has(before + 1)])
    expect(crm.received.at(-1)?.path).toBe('/hook?k=2')
  })

  test('is in no frame of a site that the settings do not name', async () => {
    const { running } = await lived()
    const app = await embed(running.adminUrl)
    const page = await open(app, {}, /frame-ancestors/, [new URL(running.adminUrl).host])
    await expect.poll(() => page.frames()[1]?.url()).toBe('chrome-error://chromewebdata/')
  })

  test('shows a new secret until it is stored, also when the link has expired or is renewed', async () => {
    const { running } = await lived()
    const of = async (tenant: string, expiresAt: number) => {
      const token = await signGuest(ADMIN_TOKEN, { tenant, by: null, expiresAt })
      return `${running.adminUrl}/portal#token=${token}`
    }
    const page = await open(await of('acme', Date.now() + 600_000), {}, /status of 40/)
    await page.getByRole('table').getByRole('link', { name: 'acme-hook' }).click()
    const view = page.url()
    await page.getByRole('button', { name: 'Rotate the shared secret' }).click()
    const secret = page.getByText(/^[0-9a-f]{64}$/)
    const value = await secret.innerText()
    const stays = async () => {
      expect(await secret.innerText()).toBe(value)
      expect(await secret.isVisible()).toBe(true)
      expect(page.url()).toBe(view)
      expect(await page.getByRole('dialog').count()).toBe(0)
    }

    await page.goto(await of('acme', Date.now() + 600_000))
    await page.getByText('Two secrets are valid').waitFor()
    await stays()
    await page.goto(await of('acme', 1_000))
    await page.getByRole('heading', { name: 'This link has expired' }).waitFor()
    await stays()
    expect(await page.getByText('Two secrets are valid').isVisible()).toBe(false)
    expect(await page.getByRole('button').allInnerTexts()).not.toContain('Rotate the shared secret')
    await page.goto(await of('acme', Date.now() + 600_000))
    await page.getByText('Two secrets are valid').waitFor()
    await stays()

    // A link of another tenant asks first.
    const next = await of('other', Date.now() + 600_000)
    const dialog = page.getByRole('dialog')
    await page.goto(next)
    await dialog.getByText('You would lose the new shared secret').waitFor()
    await dialog.getByRole('button', { name: 'Stay' }).click()
    await stays()
    await page.goto(next)
    await dialog.getByRole('button', { name: 'Leave' }).click()
    await page.getByRole('table').getByRole('link', { name: 'other-hook' }).waitFor()
    expect(await secret.count()).toBe(0)
    expect(await page.locator('body').innerText()).not.toContain('acme-hook')
  })

  test('shows nothing of a tenant once a link of another one is opened, also before that one’s data comes', async () => {
    const { running } = await lived()
    const page = await openAs(running, 'acme', '#/live', /status of 5\d\d/)
    await page.getByText('Live: new events appear here at once.').waitFor()
    await post(running, [track('acme-live')], 'acme')
    await page.getByRole('main').getByText('acme-live').waitFor()
    await page.goto(`${running.adminUrl}/portal#/`)
    await page.getByRole('table').getByRole('link', { name: 'acme-hook' }).waitFor()

    await page.route('**/v1/portal/**', (route) => route.fulfill({ status: 503 }))
    const expiresAt = Date.now() + 600_000
    const token = await signGuest(ADMIN_TOKEN, { tenant: 'other', by: null, expiresAt })
    await page.goto(`${running.adminUrl}/portal#token=${token}`)
    await page.getByText('The destination answered with the status 503.').waitFor()
    expect(await page.locator('body').innerText()).not.toMatch(/acme/i)
    await page.unroute('**/v1/portal/**')
    await page.getByRole('table').getByRole('link', { name: 'other-hook' }).waitFor()
    expect(page.url()).toBe(`${running.adminUrl}/portal#/`)
    expect(await page.locator('body').innerText()).not.toMatch(/acme/i)
    await page.evaluate(`location.hash = '#/live'`)
    await page.getByRole('heading', { name: 'Live' }).waitFor()
    expect(await page.locator('body').innerText()).not.toMatch(/acme/i)
  })

  test('says that a link has expired, and opens the next one in the same tab', async () => {
    const { running } = await lived()
    const of = async (expiresAt: number) => {
      const token = await signGuest(ADMIN_TOKEN, { tenant: 'acme', by: null, expiresAt })
      return `${running.adminUrl}/portal#token=${token}`
    }
    const page = await open(await of(1_000), {}, /status of 401/)
    await page.getByRole('heading', { name: 'This link has expired' }).waitFor()
    expect(page.url()).toBe(`${running.adminUrl}/portal#/`)
    await page.goto(await of(Date.now() + 60_000))
    await page.getByRole('link', { name: 'Acme Ltd.' }).waitFor()
    expect(page.url()).toBe(`${running.adminUrl}/portal#/`)
    expect(await barriers(page)).toEqual([])
    await page.reload() // the tab keeps the token
    await page.getByRole('table').getByRole('link', { name: 'acme-hook' }).click()
    await page.getByRole('heading', { name: 'Shared secret' }).waitFor()
    expect(await barriers(page)).toEqual([])
  })

  test('works below a path of a proxy, as the page of the operator does', async () => {
    let adminUrl = ''
    const url = await publishBelow('/hooks', () => adminUrl)
    const { running } = await lived({ portal: { url, frameAncestors: [] } })
    adminUrl = running.adminUrl
    const { body } = await ask(running, 'POST', '/tenants/acme/link', {})
    const page = await open((body as unknown as PortalLink).url.replace('/portal#', '/portal/#'))
    await page.getByRole('link', { name: 'Acme Ltd.' }).waitFor()
    expect(page.url()).toBe(`${url}/portal#/`)
    await page.evaluate(`location.hash = '#/live'`)
    await page.getByText('Live: new events appear here at once.').waitFor()
    await post(running, [track('acme-live')], 'acme')
    await page.getByRole('main').getByText('acme-live').waitFor()

    const operator = await open(`${url}/`, {}, /status of 401/)
    await operator.getByLabel('Admin token').fill(ADMIN_TOKEN)
    await operator.keyboard.press('Enter')
    await operator.getByRole('table').getByRole('link', { name: 'acme-hook' }).click()
    await operator.getByRole('heading', { name: 'acme-hook' }).waitFor()
  })
})
