// Sources and destinations, set up by a person who has nothing but the page.
import { describe, expect, test } from 'vitest'
import type { Locator, Page } from 'playwright-core'
import type { RunningDestination } from '../../src/destination.js'
import type { AuditLog, ManagedSetting } from '../../src/model/answers.js'
import { ask, SETTINGS_KEY } from '../manage/api.js'
import { ADMIN_TOKEN, destination, endpoint, post, settingsFor, start, track } from '../run.js'
import { barriers, chromiumPath, focused, holdChanges, open, useBrowser } from './browser.js'

/** The browser reports each answer that is no 2xx, and each that is lost. The page shows each of these to the person. */
const REFUSED = /status of (?:400|401|404|409|412)|net::ERR_(?:FAILED|INTERNET_DISCONNECTED)/

const PHONE = { colorScheme: 'dark', viewport: { width: 360, height: 780 } } as const

/** A tab with the token. */
async function enter(running: RunningDestination, hash: string, options = {}): Promise<Page> {
  const page = await open(`${running.adminUrl}/${hash}`, options, REFUSED)
  await page.getByLabel('Admin token or operator token').waitFor()
  // The field has the focus.
  await page.locator('input[name=token]:focus').waitFor()
  await page.keyboard.type(ADMIN_TOKEN)
  await page.getByRole('button', { name: 'Use token' }).click()
  await page.getByLabel('Admin token').waitFor({ state: 'detached' })
  return page
}

const withKey = (...parts: Parameters<typeof settingsFor>) => {
  const [destinations, changes] = parts
  return settingsFor(destinations, { settingsKeys: [SETTINGS_KEY], ...changes })
}

const button = (page: Page | Locator, name: string) =>
  page.getByRole('button', { name, exact: true })

const visit = async (page: Page, hash: string) => {
  await page.evaluate(`location.hash = ${JSON.stringify(hash)}`)
}

/** The message at a field. Screen readers get it with the field. */
async function wrongAt(field: Locator): Promise<string> {
  const ids = (await field.getAttribute('aria-describedby')) ?? ''
  const wrong = ids.split(' ').at(-1) ?? ''
  return field.page().locator(`[id="${wrong}"]`).innerText()
}

/** Nobody is kept out, and nothing scrolls sideways. */
async function fits(page: Page, width: number): Promise<void> {
  expect(await barriers(page)).toEqual([])
  expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(width)
}

async function settingsOf(running: RunningDestination, path: string): Promise<ManagedSetting> {
  return (await ask(running, 'GET', path)).body
}

describe.skipIf(chromiumPath === undefined)('the settings on the page', () => {
  useBrowser()

  test('set up a source and a destination from nothing, which then gets a call', async () => {
    const crm = await endpoint()
    const running = await start(withKey([], { sources: [] }))
    const page = await enter(running, '#/settings', {
      ...PHONE,
      permissions: ['clipboard-read', 'clipboard-write'],
    })
    await page.getByText('There is no destination yet.').waitFor()
    await fits(page, 360)

    // The source, whose key is shown once.
    await page.getByRole('link', { name: 'Sources', exact: true }).click()
    await page.getByRole('link', { name: 'New source' }).click()
    await expect.poll(() => focused(page)).toBe('New source')
    await page.getByLabel('Name').fill('my shop')
    await page.getByLabel('Calls per second').fill('fast')
    await button(page, 'Create').click()
    await page.getByText('Not saved: there are 2 mistakes.').waitFor()
    expect(await wrongAt(page.getByLabel('Name'))).toContain('Expected a name of 1 to 64 letters')
    expect(await wrongAt(page.getByLabel('Calls per second'))).toContain('got "fast"')
    await expect
      .poll(() =>
        page.getByLabel('Name').evaluate((field) => field === field.ownerDocument.activeElement),
      )
      .toBe(true)
    await fits(page, 360)
    await page.getByLabel('Name').fill('shop')
    await page.getByLabel('Calls per second').fill('100')
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { name: 'New write key' }).waitFor()
    await page.getByText('It is shown only now.').waitFor()
    const key = await page.locator('.fresh-secret pre').innerText()
    await button(page, 'Copy the write key').click()
    await page.getByText('Copied the write key.').waitFor()
    expect(await page.evaluate('navigator.clipboard.readText()')).toBe(key)
    await button(page, 'I have stored it').click()
    await expect.poll(() => focused(page)).toBe('shop')
    await fits(page, 360)
    await visit(page, '#/settings/sources')
    await page.getByText('at most 100 calls per second').waitFor()
    expect(await page.content()).not.toContain(key)

    // The destination, with mistakes at their fields.
    await visit(page, '#/settings/new/destination')
    await page.getByLabel('Name').fill('crm')
    await page.getByRole('checkbox', { name: 'shop' }).check()
    await page.getByLabel('URL').fill('crm.example.com')
    await page.getByLabel('Concurrency').fill('0')
    await button(page, 'Add a header').click()
    await page.getByLabel('Header', { exact: true }).fill('Host')
    await page.getByLabel('Value of Host').fill('growth')
    await button(page, 'Create').click()
    await page.getByText('Not saved: there are 3 mistakes.').waitFor()
    expect(await wrongAt(page.getByLabel('URL'))).toContain('Expected a full URL')
    expect(await wrongAt(page.getByLabel('Concurrency'))).toContain('from 1 to 1,000')
    expect(await wrongAt(page.getByLabel('Header', { exact: true }))).not.toBe('')
    await fits(page, 360)
    await page.getByLabel('URL').fill(crm.url)
    await page.getByLabel('Concurrency').fill('16')
    await page.getByLabel('Header', { exact: true }).fill('X-Team')
    await button(page, 'Add a header').click()
    await button(page, 'Remove the header').click()
    await expect.poll(() => focused(page)).toBe('Add a header')
    await button(page, 'Create').click()
    await page.getByRole('heading', { name: 'New shared secret' }).waitFor()
    await fits(page, 360)

    // It is tested, and then enabled.
    await page.getByText('although it is disabled').waitFor()
    await button(page, 'Send a test').click()
    await page.getByText('Each endpoint accepts these messages.').waitFor()
    expect(crm.received[0]?.headers).toMatchObject({
      'x-hookline-test': 'true',
      'x-team': 'growth',
    })
    await button(page, 'Enable').click()
    await page.getByRole('heading', { name: 'Enabled' }).waitFor()
    const tests = crm.received.length
    expect((await post(running, [track('m1')], key)).status).toBe(200)
    await crm.has(tests + 1)
    expect(crm.received.at(-1)?.headers['x-message-id']).toBe('m1')
    await button(page, 'I have stored it').click()
    await page.getByRole('link', { name: 'Its deliveries' }).click()
    await page.getByText('receives from shop').waitFor()
    expect(await settingsOf(running, '/destinations/crm')).toMatchObject({
      settings: {
        ...{ sources: ['shop'], enabled: true },
        webhooks: [{ url: crm.url, headers: { 'X-Team': '•••' }, concurrency: 16 }],
      },
    })
  })

  test('a rotation has two valid keys until the old one is revoked, or the new one taken back', async () => {
    const running = await start(withKey([]))
    await ask(running, 'PUT', '/sources/app', { writeKey: 'old-key' })
    await ask(running, 'PUT', '/destinations/vip', {
      ...{ sources: ['app'], webhooks: [{ url: 'https://example.com/' }] },
    })
    const accepts = async (key: string) => (await post(running, [track('m')], key)).status === 200
    const page = await enter(running, '#/settings/source/app')
    await button(page, 'Rotate the write key').click()
    await page.getByText('Two keys are valid').waitFor()
    const value = page.locator('.fresh-secret pre')
    const added = await value.innerText()
    expect([await accepts('old-key'), await accepts(added)]).toEqual([true, true])
    const dialog = page.getByRole('dialog')
    await button(page, 'Revoke the old key …').click()
    await dialog.getByText('Clients that use the old one are answered 401.').waitFor()
    expect(await barriers(page)).toEqual([])
    // Who presses Enter twice revokes nothing.
    await page.keyboard.press('Enter')
    await dialog.waitFor({ state: 'detached' })
    expect(await accepts('old-key')).toBe(true)
    await button(page, 'Revoke the old key …').click()
    await button(dialog, 'Revoke the old key').click()
    await expect.poll(() => focused(page)).toBe('One key is valid.')
    expect(await value.innerText()).toBe(added)
    await button(page, 'I have stored it').click()
    expect(await value.count()).toBe(0)
    expect([await accepts('old-key'), await accepts(added)]).toEqual([false, true])

    await visit(page, '#/settings/destination/vip')
    await button(page, 'Rotate the shared secret').click()
    await page.getByText('Two secrets are valid').waitFor()
    await button(page, 'Take back the new secret …').click()
    await button(dialog, 'Take back the new secret').click()
    await page.getByText('Two secrets are valid').waitFor({ state: 'detached' })
    expect(await value.count()).toBe(0)
    await button(page, 'Generate a webhook secret').click()
    await expect.poll(() => value.innerText()).toMatch(/^whsec_/)
    expect(await barriers(page)).toEqual([])
    // A secret does not come back with the view.
    await visit(page, '#/settings/destinations')
    await dialog.getByText('You would lose the new webhook secret').waitFor()
    await button(dialog, 'Leave').click()
    await page.getByRole('heading', { name: 'Destinations' }).waitFor()
    await visit(page, '#/settings/destination/vip')
    await page.getByRole('heading', { name: 'Secrets' }).waitFor()
    expect(await value.count()).toBe(0)
    expect((await settingsOf(running, '/destinations/vip')).secrets).toEqual({
      ...{ sharedSecret: 1, webhookSecret: 1 },
    })
  })

  test('a new secret that is not stored stays, whatever becomes of the next one', async () => {
    const running = await start(withKey([]))
    const accepts = async (key: string) => (await post(running, [track('m')], key)).status === 200
    const page = await enter(running, '#/settings/new/source')
    const dialog = page.getByRole('dialog')
    const titles = page.locator('.fresh-secret h2')
    const shown = () => page.locator('.fresh-secret pre').allInnerTexts()
    const end = async (action: string, unstored: string | undefined) => {
      await button(page, `${action} …`).click()
      const words = await dialog.innerText()
      const said = /You have not said yet that you have stored the (\w+) one/.exec(words)?.[1]
      expect(said).toBe(unstored)
      await button(dialog, action).click()
      await page.getByText('One key is valid.').waitFor()
    }
    await page.getByLabel('Name').fill('shop')
    await button(page, 'Create').click()
    await expect.poll(() => titles.allInnerTexts()).toEqual(['New write key'])
    const [first = ''] = await shown()

    await button(page, 'Rotate the write key').click()
    await expect.poll(() => titles.allInnerTexts()).toEqual(['Old write key', 'New write key'])
    expect((await shown())[0]).toBe(first)
    expect(await barriers(page)).toEqual([])
    await end('Take back the new key', 'old')
    await expect.poll(() => titles.allInnerTexts()).toEqual(['New write key'])
    expect(await shown()).toEqual([first])

    // The answer with the next one is lost, and what is shown is the old one then.
    await page.route('**/rotation*', async (route) => {
      await route.fetch()
      await route.abort()
    })
    await button(page, 'Rotate the write key').click()
    await page.getByText('A key that was generated is lost with it: take it back').waitFor()
    await expect.poll(() => titles.allInnerTexts()).toEqual(['Old write key'])
    await page.unroute('**/rotation*')
    await visit(page, '#/settings')
    await dialog.getByText('You would lose the old write key, which is not shown again.').waitFor()
    await button(dialog, 'Stay').click()
    await end('Take back the new key', 'old')
    await expect.poll(() => titles.allInnerTexts()).toEqual(['New write key'])
    expect(await shown()).toEqual([first])
    expect(await accepts(first)).toBe(true)

    // Somebody else rotates it.
    await ask(running, 'POST', '/sources/shop/rotation')
    await button(page, 'Rotate the write key').click()
    await expect.poll(() => titles.allInnerTexts()).toEqual(['Old write key'])
    await end('Revoke the old key', undefined)
    await expect.poll(shown).toEqual([])

    await button(page, 'Rotate the write key').click()
    await expect.poll(() => titles.allInnerTexts()).toEqual(['New write key'])
    const [next = ''] = await shown()
    await end('Revoke the old key', 'new')
    expect(await shown()).toEqual([next])
    expect([await accepts(first), await accepts(next)]).toEqual([false, true])
  })

  test('filters are tried on the latest calls while they are written, and their mistakes are shown', async () => {
    const running = await start(withKey([destination([await endpoint()])]))
    await ask(running, 'PUT', '/destinations/vip', {
      ...{ sources: ['web'], webhooks: [{ url: 'https://example.com/' }], enabled: false },
    })
    await post(running, [
      track('m1', { properties: { total: 5 } }),
      track('m2', { event: 'Order Viewed' }),
      track('m3', { event: 'Order Viewed' }),
      { type: 'identify', messageId: 'm4', userId: 'u1' },
    ])
    const page = await enter(running, '#/settings/destination/vip')
    const preview = page.getByRole('region', { name: 'Preview of the filters' })
    await button(page, 'Add a filter').click()
    await preview.getByText('There are mistakes in the filters.').waitFor()
    await page.getByText('Expected at least one of types, events and where.').waitFor()
    await page.getByLabel('Events that are stopped').fill('Order *')
    await preview.getByText('2 of the last 4 calls pass.').waitFor()
    await preview.getByText('2 × filtered: the event is denied by "Order *"').waitFor()
    await preview.getByText('track “Order Viewed” of u1, track “Order Viewed” of u1').waitFor()
    const where = page.getByLabel('Condition, as JSON')
    await where.fill('{ "properties.total": ')
    await preview.getByText('There are mistakes in the filters.').waitFor()
    await expect.poll(() => wrongAt(where)).toContain('This is not JSON')
    // What is typed is never saved as another condition.
    await where.fill('{ "properties.total": { "$gte": 1 }, "properties.total": { "$lt": 1e400 } }')
    await expect.poll(() => wrongAt(where)).toContain('occurs twice in the same object')
    await button(page, 'Save').click()
    await page.getByText('Not saved: there are 2 mistakes.').waitFor()
    await where.fill('{ "propertys.total": { "$gte": 1 } }')
    await expect.poll(() => wrongAt(where)).toContain('Did you mean properties.total?')
    await where.fill('{ "properties.total": { "$gte": 1 } }')
    await preview.getByText('1 of the last 4 calls passes.').waitFor()
    const form = page.getByRole('form', { name: 'Settings of vip' })
    await form.getByRole('checkbox', { name: 'identify' }).check()
    await page.getByText('has no effect, because types does not have "track"').waitFor()
    await button(page, 'Save').click()
    await page.getByText('Not saved: there is 1 mistake.').waitFor()
    await form.getByRole('checkbox', { name: 'track' }).check()
    await preview.getByText('1 of the last 4 calls passes.').waitFor()
    expect(await barriers(page)).toEqual([])
    await button(page, 'Save').click()
    await page.getByText('vip is saved.').waitFor()
    expect((await settingsOf(running, '/destinations/vip')).settings['filters']).toEqual([
      {
        ...{ types: ['identify', 'track'], events: { deny: ['Order *'] } },
        where: { 'properties.total': { $gte: 1 } },
      },
    ])
  })

  test('what somebody else has saved is not overwritten, and what was typed is not lost', async () => {
    const running = await start(withKey([]))
    const vip = {
      sources: ['web'],
      webhooks: [{ url: 'https://a.example.com/', headers: { 'X-A': 'kept' } }],
    }
    await ask(running, 'PUT', '/destinations/vip', vip)
    const page = await enter(running, '#/settings/destination/vip')
    await page.getByLabel('URL').waitFor()
    const filters = [{ types: ['page'] }]
    await ask(running, 'PATCH', '/destinations/vip', { filters, enabled: false })
    await page.getByLabel('Concurrency').fill('7')
    await button(page, 'Save').click()
    const notice = page.getByRole('alert').filter({ hasText: 'Somebody else has changed vip' })
    await notice.getByText('Changed by somebody else: Filters. It is disabled now.').waitFor()
    expect(await page.getByLabel('Concurrency').inputValue()).toBe('7')
    expect(await barriers(page)).toEqual([])
    await button(page, 'Load the new version, and keep what I typed').click()
    const form = page.getByRole('form', { name: 'Settings of vip' })
    await form.getByRole('checkbox', { name: 'page', checked: true }).waitFor()
    expect(await page.getByLabel('Concurrency').inputValue()).toBe('7')
    await button(page, 'Save').click()
    await page.getByText('vip is saved.').waitFor()
    const settings = {
      filters,
      enabled: false,
      webhooks: [{ concurrency: 7, headers: { 'X-A': '•••' } }],
    }
    expect(await settingsOf(running, '/destinations/vip')).toMatchObject({ settings })

    // Both have changed the same.
    const webhooks = [{ url: 'https://b.example.com/' }]
    await ask(running, 'PATCH', '/destinations/vip', { webhooks }, { 'X-Actor': 'Bob' })
    await page.getByLabel('Concurrency').fill('8')
    await button(page, 'Save').click()
    await page.getByText('Bob has changed vip meanwhile.').waitFor()
    await expect.poll(() => focused(page)).toContain('Bob has changed vip')
    const bobs = page.getByRole('alert').filter({ hasText: 'Bob' })
    await bobs.getByText('Endpoints: you both changed this. The form keeps yours.').waitFor()
    await bobs.getByText('https://b.example.com/').waitFor()

    // Somebody has deleted it.
    await button(page, 'Load the new version, and keep what I typed').click()
    await ask(running, 'DELETE', '/destinations/vip')
    await button(page, 'Save').click()
    await page.getByText('Somebody else has deleted vip meanwhile.').waitFor()
    await page.getByLabel('Value of X-A').fill('new')
    await button(page, 'Create').click()
    await page.getByRole('heading', { name: 'New shared secret' }).waitFor()
    expect(await settingsOf(running, '/destinations/vip')).toMatchObject({
      settings: { webhooks: [{ url: 'https://a.example.com/', concurrency: 8 }] },
    })
  })

  test('what is typed while a change is saved stays, and a new one takes nothing until it is created', async () => {
    const running = await start(withKey([]))
    const page = await enter(running, '#/settings/new/source')
    const changes = await holdChanges(page, '**/v1/admin/*/*')
    await page.getByLabel('Name').fill('app')
    await button(page, 'Create').click()
    await changes.asked()
    expect(await page.getByLabel('Name').isDisabled()).toBe(true)
    changes.release()
    await button(page, 'I have stored it').click()

    await ask(running, 'PUT', '/destinations/vip', {
      ...{ sources: ['app'], webhooks: [{ url: 'https://a.example.com/' }] },
    })
    await visit(page, '#/settings/destination/vip')
    const form = page.getByRole('form', { name: 'Settings of vip' })
    await form.getByRole('checkbox', { name: 'app' }).uncheck()
    await form.getByLabel('Concurrency').fill('11')
    await button(page, 'Save').click()
    await changes.asked()
    await form.getByLabel('Requests per second').fill('25')
    changes.release()
    await page.getByText('vip is saved.').waitFor()
    expect(await form.getByLabel('Requests per second').inputValue()).toBe('25')
    expect(await form.getByLabel('Concurrency').inputValue()).toBe('11')
    await button(page, 'Save').click()
    await changes.asked()
    changes.release()
    await expect
      .poll(async () => (await settingsOf(running, '/destinations/vip')).settings)
      .toMatchObject({
        ...{ sources: [] },
        webhooks: [{ concurrency: 11, rateLimit: { requestsPerSecond: 25 } }],
      })
  })

  test('what somebody else has changed is shown before it is rotated, ended, enabled or deleted', async () => {
    const running = await start(withKey([]))
    await ask(running, 'PUT', '/sources/app', { writeKey: 'first' })
    const page = await enter(running, '#/settings/source/app')
    const dialog = page.getByRole('dialog')
    const said = (text: string) => page.getByRole('alert').filter({ hasText: text }).waitFor()
    await button(page, 'Rotate the write key').waitFor()
    await ask(running, 'POST', '/sources/app/rotation', undefined, { 'X-Actor': 'Bob' })
    await button(page, 'Rotate the write key').click()
    await said('Nothing was done: Bob has started a rotation of app meanwhile.')
    await page.getByText('Two keys are valid').waitFor()
    expect(await page.locator('.fresh-secret').count()).toBe(0)

    // A rotation that ended, and another one that began, look the same.
    await ask(running, 'DELETE', '/sources/app/rotation')
    await ask(running, 'POST', '/sources/app/rotation')
    await button(page, 'Revoke the old key …').click()
    await button(dialog, 'Revoke the old key').click()
    await said('What is shown is as it was: a secret may be another one.')
    expect((await settingsOf(running, '/sources/app')).secrets).toEqual({ writeKey: 2 })
    await button(page, 'Revoke the old key …').click()
    await button(dialog, 'Revoke the old key').click()
    await page.getByText('One key is valid.').waitFor()

    // What was typed stays, and what both have changed is said.
    const webhooks = [{ url: 'https://a.example.com/', headers: { 'X-A': 'kept' } }]
    await ask(running, 'PUT', '/destinations/vip', { sources: [], webhooks, enabled: false })
    await visit(page, '#/settings/destination/vip')
    await page.getByLabel('Concurrency').fill('7')
    await ask(running, 'PATCH', '/destinations/vip', {
      ...{ enabled: true, webhooks: [{ ...webhooks[0], concurrency: 9 }] },
    })
    await button(page, 'Enable').click()
    await said('Changed by somebody else: Endpoints. It is enabled now.')
    await page.getByRole('heading', { name: 'Enabled' }).waitFor()
    await said('Endpoints: you both changed this. The form keeps yours.')
    expect(await page.getByLabel('Concurrency').inputValue()).toBe('7')
    await button(page, 'Save').click()
    await page.getByText('vip is saved.').waitFor()

    // The value of a header stays only at its URL.
    const value = page.getByLabel('Value of X-A')
    expect(await value.getAttribute('placeholder')).toBe('••• stays as it is')
    await page.getByLabel('URL').fill('https://b.example.com/')
    expect(await value.getAttribute('placeholder')).toBe('Enter it again')
    await button(page, 'Save').click()
    await expect.poll(() => wrongAt(value)).toContain('Enter the value again')
    await value.fill('new')
    await button(page, 'Save').click()
    await page.getByText('vip is saved.').waitFor()

    await button(page, 'Delete vip …').click()
    await dialog.getByText('No message waits for it.').waitFor()
    await ask(running, 'PATCH', '/destinations/vip', { enabled: false })
    await button(dialog, 'Delete vip').click()
    await said('Somebody else has changed vip meanwhile. It is disabled now.')
    await button(dialog, 'Delete vip').click()
    await page.getByText('vip is deleted.').waitFor()
  })

  test('nothing is lost with an answer, or while the destination is away', async () => {
    const running = await start(withKey([]))
    const page = await enter(running, '#/')
    const context = page.context()
    await context.setOffline(true)
    await visit(page, '#/settings/new/source')
    await page.getByText('The settings can’t be loaded.').waitFor()
    await context.setOffline(false)
    await page.getByLabel('Name').fill('app')
    /** The destination does what it is asked, and nobody learns of it. */
    const loseAnswers = (path: string) =>
      page.route(path, async (route) => {
        if (route.request().method() !== 'GET') {
          await route.fetch()
          await route.abort()
        } else await route.continue()
      })
    await loseAnswers('**/sources/app')
    await button(page, 'Create').click()
    await page.getByRole('alert').filter({ hasText: 'The destination does not answer.' }).waitFor()
    await page.unroute('**/sources/app')
    await button(page, 'Create').click()
    await page.getByRole('heading', { name: 'The write key was not shown' }).waitFor()
    expect(await barriers(page)).toEqual([])
    await loseAnswers('**/sources/app/rotation*')
    await button(page, 'Rotate the write key').click()
    const lost = page.getByRole('alert').filter({ hasText: 'The answer was lost.' })
    await lost.getByText('A key that was generated is lost with it').waitFor()
    await page.getByText('Two keys are valid').waitFor()
    await page.unroute('**/sources/app/rotation*')
    await button(page, 'Take back the new key …').click()
    await button(page.getByRole('dialog'), 'Take back the new key').click()
    await page.getByText('One key is valid.').waitFor()

    await context.setOffline(true)
    await visit(page, '#/settings/source/web')
    await page.getByRole('alert').filter({ hasText: 'does not answer' }).last().waitFor()
    await context.setOffline(false)
    await page.getByText('This source is in the settings file.').waitFor()
  })

  test('what was done is said to be done, although its answer was lost', async () => {
    const running = await start(withKey([]))
    await ask(running, 'PUT', '/destinations/vip', {
      ...{ sources: [], enabled: false },
      webhooks: [{ url: 'https://a.example.com/', headers: { 'X-A': 'kept' } }],
    })
    await ask(running, 'POST', '/destinations/vip/rotation')
    const page = await enter(running, '#/settings/destination/vip')
    const alerts = page.getByRole('alert').filter({ hasText: /\S/ })
    const lose = (path: string, isRepeated: boolean) =>
      page.route(path, async (route) => {
        if (route.request().method() === 'GET') return route.continue()
        await route.fetch()
        // Browsers repeat a request whose connection ends without an answer.
        return isRepeated ? route.continue() : route.abort()
      })
    await lose('**/destinations/vip', false)
    await page.getByLabel('Concurrency').fill('7')
    await page.getByLabel('Value of X-A').fill('new')
    await button(page, 'Save').click()
    await alerts.getByText('nothing is made twice').waitFor()
    await page.unroute('**/destinations/vip')
    await button(page, 'Save').click()
    await page.getByText('vip is saved.').waitFor()
    expect(await alerts.count()).toBe(0)

    await lose('**/destinations/vip', true)
    await page.getByLabel('Concurrency').fill('8')
    await button(page, 'Save').click()
    await expect
      .poll(async () => (await settingsOf(running, '/destinations/vip')).settings['webhooks'])
      .toMatchObject([{ concurrency: 8 }])
    await expect.poll(() => button(page, 'Save').isEnabled()).toBe(true)
    expect(await alerts.count()).toBe(0)
    await button(page, 'Enable').click()
    await page.getByText('vip is enabled.').waitFor()
    expect(await alerts.count()).toBe(0)

    await lose('**/destinations/vip/rotation*', false)
    await button(page, 'Revoke the old secret …').click()
    await button(page.getByRole('dialog'), 'Revoke the old secret').click()
    await page.getByText('Only the new secret is valid now.').waitFor()
    expect(await alerts.count()).toBe(0)

    await page.unroute('**/destinations/vip')
    await lose('**/destinations/vip', false)
    await button(page, 'Delete vip …').click()
    await button(page.getByRole('dialog'), 'Delete vip').click()
    await page.getByText('vip is deleted.').waitFor()
  })

  test('a name that a browser leaves out of an address is refused at its field, and the choice of lists fits a small phone', async () => {
    const running = await start(withKey([]))
    const page = await enter(running, '#/settings/new/source', {
      viewport: { width: 320, height: 640 },
    })
    for (const name of ['.', '..']) {
      await page.getByLabel('Name').fill(name)
      await button(page, 'Create').click()
      await expect
        .poll(() => wrongAt(page.getByLabel('Name')))
        .toBe(`Expected a name of 1 to 64 letters, digits, "-" and "_", got "${name}".`)
    }
    await fits(page, 320)
  })

  test('what was typed, and a secret that was not stored, are not lost without a question', async () => {
    const running = await start(withKey([]))
    const page = await enter(running, '#/settings', PHONE)
    const dialog = page.getByRole('dialog', { name: 'Leave this view?' })
    const question = dialog.getByText('You would lose')
    const stay = async (text: string) => {
      expect(await question.innerText()).toBe(`You would lose ${text}.`)
      await button(dialog, 'Stay').click()
      await dialog.waitFor({ state: 'detached' })
    }
    await page.getByRole('link', { name: 'New destination' }).click()
    await page.getByLabel('Name').fill('vip')
    await page.getByRole('link', { name: 'Live', exact: true }).click()
    await question.waitFor()
    await fits(page, 360)
    // Enter stays.
    await page.keyboard.press('Enter')
    await dialog.waitFor({ state: 'detached' })
    await page.keyboard.press('Escape')
    await stay('what you typed')
    await page.evaluate('history.back()')
    await stay('what you typed')
    expect(page.url()).toContain('#/settings/new/destination')
    const asked = page.waitForEvent('dialog')
    await page.evaluate('setTimeout(() => location.reload())')
    expect((await asked).type()).toBe('beforeunload')
    expect(await page.getByLabel('Name').inputValue()).toBe('vip')
    await page.getByLabel('URL').fill('https://example.com/')
    await button(page, 'Create').click()

    // Each secret stays until it is stored.
    const secrets = page.locator('.fresh-secret h2')
    await page.getByRole('heading', { name: 'New shared secret' }).waitFor()
    await button(page, 'Generate a webhook secret').click()
    await expect
      .poll(() => secrets.allInnerTexts())
      .toEqual(['New shared secret', 'New webhook secret'])
    await fits(page, 360)
    await page.keyboard.press('Escape')
    await stay('the new shared secret and the new webhook secret, which is not shown again')
    await page.getByLabel('Concurrency').fill('7')
    await button(page, 'Save').click()
    await page.getByText('vip is saved.').waitFor()
    await button(page, 'I have stored it').first().click()
    await expect.poll(() => secrets.allInnerTexts()).toEqual(['New webhook secret'])
    await button(page, 'I have stored it').click()
    await page.getByRole('link', { name: 'Its changes' }).click()
    await page.getByRole('heading', { name: 'Audit log' }).waitFor()
    // Nothing is asked where nothing would be lost, and who leaves comes to what was chosen.
    await page.evaluate('history.back()')
    await page.getByLabel('Concurrency').fill('8')
    await page.evaluate('history.back()')
    await question.waitFor()
    await button(dialog, 'Leave').click()
    await page.getByRole('heading', { name: 'New destination' }).waitFor()
  })

  test('a deletion says what it costs, and needs the name if messages are discarded', async () => {
    const down = await endpoint(503)
    const running = await start(withKey([]))
    await ask(running, 'PUT', '/sources/app', { writeKey: 'app-key' })
    await ask(running, 'PUT', '/destinations/vip', {
      ...{ sources: ['app'], webhooks: [{ url: down.url }] },
    })
    await post(running, [track('m1'), track('m2')], 'app-key')
    await expect.poll(async () => (await running.stats())[0]?.backlog).toBe(2)
    const page = await enter(running, '#/settings/source/app', PHONE)
    await button(page, 'Delete app …').click()
    const dialog = page.getByRole('dialog')
    await dialog.getByText('1 destination takes its calls.').waitFor()
    expect(await button(dialog, 'Delete app').count()).toBe(0)
    await dialog.getByRole('link', { name: 'vip' }).click()
    await button(page, 'Delete vip …').click()
    await dialog.getByText('2 messages wait for it').waitFor()
    expect(await barriers(page)).toEqual([])
    await dialog.getByRole('radio', { name: 'discard' }).check()
    await button(dialog, 'Delete it and 2 messages').waitFor()
    await post(running, [track('m3')], 'app-key')
    const confirm = button(dialog, 'Delete it and 3 messages')
    await confirm.waitFor()
    expect(await confirm.isDisabled()).toBe(true)
    await dialog.getByLabel('Type vip to confirm').fill('vip')
    await fits(page, 360)
    await confirm.click()
    await page.getByText('vip is deleted. 3 messages were deleted with it.').waitFor()
    await expect.poll(() => focused(page)).toBe('Destinations')
    expect(await running.stats()).toEqual([])
    await visit(page, '#/settings/source/app')
    await button(page, 'Delete app …').click()
    await dialog.getByText('No destination takes its calls.').waitFor()
    await button(dialog, 'Delete app').click()
    await page.getByText('app is deleted.').waitFor()
    expect((await ask(running, 'GET', '/sources/app')).status).toBe(404)
  })

  test('the audit log says who changed what, page by page and for each of them', async () => {
    const running = await start(withKey([]))
    const page = await enter(running, '#/settings/audit', PHONE)
    await page.getByText('No change in the last 90 days.').waitFor()
    // A name that the log can't have does not leave an earlier one in use.
    const actor = page.getByLabel('Your name, for what you change in this tab')
    await actor.fill('Ann')
    await actor.fill('Ann\u202e')
    await page.getByRole('alert').filter({ hasText: 'The log can’t have this name.' }).waitFor()
    expect(await page.evaluate('sessionStorage.getItem("hookline-actor")')).toBeNull()
    await actor.fill('Zoë 李雷')
    await visit(page, '#/settings/new/source')
    await page.getByLabel('Name').fill('app')
    await button(page, 'Create').click()
    await button(page, 'I have stored it').click()
    for (let i = 1; i <= 60; i++) {
      const rateLimit = { callsPerSecond: i }
      await ask(running, 'PATCH', '/sources/app', { rateLimit })
    }
    await ask(running, 'PUT', '/destinations/vip', {
      ...{ sources: ['app'], webhooks: [{ url: 'https://example.com/' }] },
    })
    await ask(running, 'POST', '/destinations/vip/pause', { reason: 'maintenance' })
    await page.getByRole('link', { name: 'Its changes' }).click()
    const entries = page.locator('.audit > li')
    await expect.poll(() => entries.count()).toBe(50)
    const first = entries.first()
    await first.getByText('127.0.0.1 changed the source app').waitFor()
    expect(await first.locator('.headers').innerText()).toMatch(
      /rateLimit\.callsPerSecond\s+59 → 60/,
    )
    await page.getByRole('link', { name: 'Older' }).click()
    await expect.poll(() => entries.count()).toBe(11)
    await entries.last().getByText('Zoë 李雷 created the source app from 127.0.0.1').waitFor()
    await fits(page, 360)
    await page.getByRole('link', { name: 'Remove the filter source app' }).click()
    await first.getByText('127.0.0.1 paused the destination vip').waitFor()
    await first.getByText('maintenance').waitFor()
    const all = (await ask(running, 'GET', '/audit?limit=1000')).body as unknown as AuditLog
    expect(all.entries).toHaveLength(63)

    // The name goes with the token.
    await visit(page, '#/settings/audit')
    expect(await actor.inputValue()).toBe('Zoë 李雷')
    await button(page, 'Replay allowed').click()
    await button(page, 'Forget the token').click()
    await page.getByLabel('Admin token').fill(ADMIN_TOKEN)
    await button(page, 'Use token').click()
    await expect.poll(() => actor.inputValue()).toBe('')
    await visit(page, '#/settings/source/app')
    await page.getByLabel('Calls per second').fill('77')
    await button(page, 'Save').click()
    await page.getByText('app is saved.').waitFor()
    await page.getByRole('link', { name: 'Its changes' }).click()
    await first.getByText('127.0.0.1 changed the source app').waitFor()
  })

  test('a tenant is created with quotas, owns a source, and is deleted after it', async () => {
    const running = await start(withKey([]))
    const page = await enter(running, '#/settings/new/tenant', PHONE)
    await page.getByLabel('Name').fill('acme')
    await page.getByLabel('Title').fill('Acme Ltd.')
    await page.getByLabel('Burst').fill('5')
    await button(page, 'Create').click()
    await expect.poll(() => wrongAt(page.getByLabel('Burst'))).toContain('"callsPerSecond" beside')
    await page.getByLabel('Calls per second').fill('2')
    await page.getByLabel('It may change the URLs of its endpoints').check()
    await fits(page, 360)
    await button(page, 'Create').click()
    await page.getByText('tenant in the store').waitFor()
    await visit(page, '#/settings/new/source')
    await page.getByLabel('Name').fill('app')
    await page.getByLabel('Tenant').fill('acne')
    await button(page, 'Create').click()
    await expect.poll(() => wrongAt(page.getByLabel('Tenant'))).not.toBe('')
    await page.getByLabel('Tenant').fill('acme')
    await button(page, 'Create').click()
    await button(page, 'I have stored it').click()
    // Only its own sources are offered to a destination of a tenant.
    await ask(running, 'PUT', '/sources/other', {})
    await visit(page, '#/settings/new/destination')
    await page.getByText('Choose at least one: without a source, it gets no calls.').waitFor()
    const offered = page.getByRole('group', { name: 'Sources' }).getByRole('checkbox')
    await expect.poll(() => offered.count()).toBe(3)
    await page.getByLabel('Tenant').fill('acme')
    await expect.poll(() => offered.count()).toBe(1)
    await page.getByRole('checkbox', { name: 'app' }).check()
    await page.getByLabel('Tenant').fill('')
    await visit(page, '#/settings/sources')
    await button(page, 'Leave').click()
    await page.getByText('no rate limit, of the tenant acme').waitFor()
    await visit(page, '#/settings/tenants')
    await page.getByText('Acme Ltd.').waitFor()
    await fits(page, 360)
    await page.getByRole('link', { name: 'acme' }).click()
    await page.getByRole('link', { name: 'Its destinations' }).click()
    await page.getByText('No destination matches.').waitFor()
    await page.goBack()
    await page.getByRole('link', { name: 'Its sources' }).click()
    const sources = page.locator('.settings .what > a')
    await expect.poll(() => sources.allInnerTexts()).toEqual(['app'])
    await page.getByRole('link', { name: 'Remove the filter tenant acme' }).click()
    await expect.poll(() => sources.allInnerTexts()).toEqual(['app', 'other', 'web'])
    await visit(page, '#/settings/tenant/acme')
    await page.getByLabel('Minutes until it ends').fill('1500')
    await button(page, 'Make a link').click()
    await page.getByRole('alert').filter({ hasText: 'minutes must be' }).waitFor()
    await page.getByLabel('Minutes until it ends').fill('5')
    await page.getByLabel('For whom it is').fill('ada@acme.example')
    await button(page, 'Make a link').click()
    const link = page.getByRole('link', { name: 'Open it' })
    await link.waitFor()
    await fits(page, 360)
    expect(await barriers(page)).toEqual([])
    const portal = await page.context().newPage()
    await portal.goto((await link.getAttribute('href')) ?? '')
    await portal.getByRole('link', { name: 'Acme Ltd.' }).waitFor()
    await portal.close()
    await button(page, 'Delete acme …').click()
    const dialog = page.getByRole('dialog')
    await button(dialog, 'Delete acme').click()
    await dialog.getByRole('alert').filter({ hasText: '"app"' }).waitFor()
    await ask(running, 'DELETE', '/sources/app')
    await button(dialog, 'Delete acme').click()
    await page.getByText('There is no tenant yet.').waitFor()
  })

  test('without a settingsKey it shows what the file has, and says how to get one', async () => {
    const crm = destination([await endpoint()], { filters: [{ types: ['page'] }] })
    const running = await start(settingsFor([crm]))
    const page = await enter(running, '#/settings')
    await page.getByText('the settings need a settingsKey').waitFor()
    expect(await page.getByRole('link', { name: 'New destination' }).count()).toBe(0)
    await page.getByText('idle').waitFor()
    expect(await barriers(page)).toEqual([])
    await page.getByRole('link', { name: 'crm' }).click()
    await page.getByText('This destination is in the settings file.').waitFor()
    expect(await page.getByLabel('URL').isDisabled()).toBe(true)
    expect(await button(page, 'Save').count()).toBe(0)
    expect(await barriers(page)).toEqual([])
    await visit(page, '#/settings/new/source')
    await page.getByText('the settings need a settingsKey').waitFor()
    // A name that the file has can't be taken.
    const withBoth = await start(withKey([]))
    const other = await enter(withBoth, '#/settings/new/source')
    await other.getByLabel('Name').fill('web')
    await button(other, 'Create').click()
    await expect
      .poll(() => wrongAt(other.getByLabel('Name')))
      .toContain('There is a source of this name already.')
  })

  test('the lists have pages, and are searched', async () => {
    const running = await start(withKey([]))
    for (let i = 0; i < 31; i++) await ask(running, 'PUT', `/sources/a${i}`, {})
    const webhooks = [{ url: 'https://example.com/' }]
    for (let i = 10; i < 40; i++) {
      await ask(running, 'PUT', `/destinations/d${i}`, { sources: [], webhooks })
    }
    const page = await enter(running, '#/settings')
    const names = page.locator('.settings .what > a')
    await expect.poll(() => names.count()).toBe(25)
    expect(await page.locator('.settings .pill').first().innerText()).toBe('idle')
    await page.getByRole('link', { name: 'Next' }).click()
    await expect.poll(() => names.allInnerTexts()).toEqual(['d35', 'd36', 'd37', 'd38', 'd39'])
    await page.getByText('26 to 30 of 30').waitFor()
    await expect.poll(() => page.locator('.settings .pill').count()).toBe(5)
    await page.getByLabel('Search destinations by name or URL').fill('D1')
    await expect.poll(() => names.count()).toBe(10)
    expect(await barriers(page)).toEqual([])
    // A source that is no longer chosen does not vanish under the hand.
    await visit(page, '#/settings/new/destination')
    const search = page.getByLabel('Search more sources by name')
    await search.fill('web')
    await page.getByRole('checkbox', { name: 'web' }).check()
    await search.fill('')
    await page.getByRole('checkbox', { name: 'a0' }).waitFor()
    await page.getByRole('checkbox', { name: 'web' }).uncheck()
    expect(await page.getByRole('checkbox', { name: 'web' }).count()).toBe(1)
  })
})
