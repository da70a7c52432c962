// The portal as a customer uses it: in a frame of another site, which the program of docs/portal.md shows.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { signGuest } from '../../src/operate/portal/token.js'
import { ask, SETTINGS_KEY } from '../manage/api.js'
import { PATH } from '../openapi/document.js'
import { ADMIN_TOKEN, endpoint, post, settingsFor, start, track } from '../run.js'
import { barriers, chromiumPath, NAME, open, useBrowser } from './browser.js'

/** A destination with a tenant that has deliveries, beside another one. */
async function lived() {
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
    await frame.getByRole('button', { name: 'Make a new secret for X-Signature' }).click()
    await frame.getByText(/The new secret is shown only now: [0-9a-f]{64}/).waitFor()
    await frame.getByRole('button', { name: 'Keep only the new secret' }).click()
    await frame.getByText('Only the new secret is valid now.').waitFor()
    await frame.getByLabel('URL', { exact: true }).fill(moved.url)
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

  test('is in no frame of a site that the settings do not name', async () => {
    const { running } = await lived()
    const app = await embed(running.adminUrl)
    const page = await open(app, {}, /frame-ancestors/, [new URL(running.adminUrl).host])
    await expect.poll(() => page.frames()[1]?.url()).toBe('chrome-error://chromewebdata/')
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
    await page.getByRole('heading', { name: 'Settings' }).waitFor()
    expect(await barriers(page)).toEqual([])
  })
})
