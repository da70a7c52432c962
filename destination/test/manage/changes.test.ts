// @module-tag long
// What a change must not break: requests under way, other processes, memory, and what nobody asked to change.
import { describe, expect, onTestFinished, test } from 'vitest'
import { Pauses } from '../../src/deliver/pauses.js'
import { Managed } from '../../src/manage/managed.js'
import { Changes } from '../../src/manage/changes.js'
import { getSetting } from '../../src/manage/listing.js'
import type { AuditEntry } from '../../src/model/answers.js'
import type { Log } from '../../src/observe/log.js'
import { openStore } from '../../src/store/open.js'
import { Follower } from '../../src/store/follower.js'
import type { Settings, Source } from '../../src/settings/settings.js'
import { endpoint, post, settingsFor, silent, start, track } from '../run.js'
import { ask, SETTINGS_KEY } from './api.js'

const managedSettings = (changes: Partial<Settings> = {}): Settings =>
  settingsFor([], { settingsKeys: [SETTINGS_KEY], ...changes })

/** A log that keeps what is warned of. */
function listening(): { log: Log; lines: object[] } {
  const lines: object[] = []
  const note = (details: object) => void lines.push(details)
  return { log: { ...silent, warn: note, error: note }, lines }
}

describe('a request under way', () => {
  test('that the receiver refuses because it knows only the new secret is tried again with it', async () => {
    let answerFirst: () => void = () => undefined
    const isFirst = new Promise<void>((resolve) => (answerFirst = resolve))
    const crm = await endpoint(
      (response) => void isFirst.then(() => response.writeHead(401).end()),
      204,
    )
    const running = await start(managedSettings())
    const webhooks = [{ url: crm.url }]
    await ask(running, 'PUT', '/destinations/crm', { sources: ['web'], webhooks })
    await post(running, [track('m')])
    await crm.has(1)
    const { body } = await ask(running, 'POST', '/destinations/crm/rotation')
    expect(body.generated).toHaveProperty('sharedSecret')
    answerFirst()
    await crm.has(2)
    await expect.poll(() => running.stats()).toEqual([])
  })

  test('that the former URL refuses is sent to the new one', async () => {
    const [former, next] = [
      await endpoint((response) => setTimeout(() => response.writeHead(410).end(), 300)),
      await endpoint(),
    ]
    const running = await start(managedSettings())
    const using = (url: string) => ({ sources: ['web'], webhooks: [{ url }] })
    await ask(running, 'PUT', '/destinations/crm', using(former.url))
    await post(running, [track('m')])
    await former.has(1)
    await ask(running, 'PATCH', '/destinations/crm', using(next.url))
    await next.has(1)
    await expect.poll(() => running.stats()).toEqual([])
  })
})

test('a page of the audit log has at most about a MB, however long the entries are', async () => {
  const running = await start(managedSettings())
  const pattern = (i: number, version: number) => `${version}-${i}-${'x'.repeat(180)}`
  for (let version = 0; version < 12; version++) {
    const allow = Array.from({ length: 900 }, (_, i) => pattern(i, version))
    const webhooks = [{ url: 'https://crm.example.com/' }]
    const settings = { sources: ['web'], filters: [{ events: { allow } }], webhooks }
    expect((await ask(running, 'PUT', '/destinations/crm', settings)).status).toBeLessThan(300)
  }
  const entries: AuditEntry[] = []
  for (let before = ''; ;) {
    const { text, body } = await ask(running, 'GET', `/audit?limit=1000${before}`)
    expect(text.length).toBeLessThan(1_800_000)
    entries.push(...body.entries)
    if (body.next === null) break
    before = `&before=${body.next}`
  }
  expect(entries.map(({ action }) => action)).toEqual([
    ...Array<string>(11).fill('update'),
    'create',
  ])
})

test('a reload and a change of the same name at the same time are not both accepted', async () => {
  const file = managedSettings()
  const running = await start(file)
  for (let round = 0; round < 20; round++) {
    const name = `s${round}`
    const sources = [...file.sources, { name, writeKey: `key-${round}` }]
    const [reloaded, put] = await Promise.all([
      running.reload({ ...file, sources }).then(
        () => true,
        () => false,
      ),
      ask(running, 'PUT', `/sources/${name}`, {}),
    ])
    expect([reloaded, put.status].join(), `round ${round}`).toMatch(/^(true,409|false,201)$/)
    await running.reload(file)
  }
})

test('a destination is not used by a process whose file lacks its source, until there is one', async () => {
  const settings = managedSettings({ sources: [{ name: 'web', writeKey: 'k' }] })
  const whole = { ...settings, sources: [...settings.sources, { name: 'app', writeKey: 'a' }] }
  const recordsAfter = async (method: string, fields: object) => {
    const running = await start(whole)
    expect((await ask(running, method, '/destinations/crm', fields)).status).toBeLessThan(300)
    await running.close()
    const store = await openStore(settings.store)
    const { records } = await store.records(0, 10)
    await store.close()
    return records
  }
  const webhooks = [{ url: 'https://crm.example.com/' }]
  const managed = await Managed.open(settings, Date.now)
  const created = await recordsAfter('PUT', { sources: ['web'], webhooks })
  expect(await managed.take(created, true)).toEqual([])
  const changed = await recordsAfter('PATCH', { sources: ['web', 'app'] })
  const message = expect.stringContaining('the source "app"') as string
  expect(await managed.take(changed, false)).toMatchObject([{ name: 'crm', message }])
  expect(managed.get('destination', 'crm')).toMatchObject({ sources: ['web'] })
  expect(managed.whyUnusable('destination', 'crm')).toMatch(/Add the source/)
  // It is told once.
  expect(await managed.take([], false)).toEqual([])
  expect(await managed.useFile(whole)).toMatchObject({ unusable: [] })
  expect(managed.get('destination', 'crm')).toMatchObject({ sources: ['web', 'app'] })
  expect(managed.whyUnusable('destination', 'crm')).toBeUndefined()
})

test('settings are not applied to what this process does not use as the store has it, also in a dry run', async () => {
  const [app, web] = ['app', 'web'].map((name) => ({ name, writeKey: name })) as [Source, Source]
  const settings = managedSettings()
  const store = await openStore(settings.store)
  onTestFinished(() => store.close())
  const processWith = async (source: Source) => {
    const managed = await Managed.open({ ...settings, sources: [source] }, store.clock.now)
    const follower = new Follower(store, async (...changes) => {
      await managed.take(...changes)
    })
    const changes = new Changes({ store, managed, follower, pauses: await Pauses.open(store) })
    return { changes, managed }
  }
  const by = { actor: { by: null, from: null }, check: () => Promise.resolve() }
  const webhooks = [{ url: 'https://crm.example.com/' }]
  const former = await processWith(web)
  const order = { kind: 'destination', name: 'crm', condition: {}, ...by } as const
  await former.changes.put(order, { sources: ['web'], webhooks })
  const other = await processWith(app)
  const rest = { match: undefined, waiting: undefined, ...by }
  const unusable = {
    ...{ status: 409, code: 'unusable_here' },
    message: expect.stringContaining('the source "web"') as string,
  }
  const same = { destinations: [{ name: 'crm', sources: ['app'], webhooks }] }
  for (const dryRun of [true, false]) {
    const apply = (wanted: object, prune = false) =>
      other.changes.apply({ wanted: { ...wanted }, prune, dryRun, ...rest })
    await expect(apply(same)).rejects.toMatchObject(unusable)
    await expect(apply({ destinations: [] }, true)).rejects.toMatchObject(unusable)
    // What concerns others only is applied.
    expect(await apply({ sources: [], destinations: [] })).toMatchObject({ same: 0 })
    expect(await apply({ sources: [] }, true)).toMatchObject({ same: 0 })
  }
  expect(getSetting(former.managed, 'destination', 'crm')).toMatchObject({
    settings: { sources: ['web'] },
  })
})

describe('a destination that is deleted', () => {
  test.each([
    ['by a request without a choice', [], ['']],
    ['with its messages', ['kept'], ['?waiting=discard']],
    ['and whose messages are deleted later', ['kept'], ['?waiting=keep', '?waiting=discard']],
  ])('%s leaves no pause to a new one of its name', async (_, messageIds, queries) => {
    const crm = await endpoint()
    const running = await start(managedSettings())
    const settings = { sources: ['web'], webhooks: [{ url: crm.url }] }
    await ask(running, 'PUT', '/destinations/crm', settings)
    await ask(running, 'POST', '/destinations/crm/pause', { reason: 'of the former customer' })
    if (messageIds.length > 0)
      await post(
        running,
        messageIds.map((id) => track(id)),
      )
    for (const query of queries) {
      expect((await ask(running, 'DELETE', `/destinations/crm${query}`)).status).toBe(200)
    }
    await ask(running, 'PUT', '/destinations/crm', settings)
    await post(running, [track('m')])
    await crm.has(1)
    expect(crm.received[0]?.headers['x-message-id']).toBe('m')
    expect(await ask(running, 'POST', '/destinations/crm/resume', {})).toMatchObject({
      body: { wasPaused: false },
    })
  })

  test.each(['a DELETE', 'a list of settings'])(
    'by %s that keeps its messages keeps its pause with them',
    async (how) => {
      const crm = await endpoint()
      const running = await start(managedSettings())
      const settings = { sources: ['web'], webhooks: [{ url: crm.url }] }
      await ask(running, 'PUT', '/destinations/crm', settings)
      await ask(running, 'POST', '/destinations/crm/pause', { reason: 'wrong events' })
      await post(running, [track('m1')])
      const deleted =
        how === 'a DELETE'
          ? await ask(running, 'DELETE', '/destinations/crm?waiting=keep')
          : await ask(running, 'POST', '/settings', {
              ...{ settings: { destinations: [] }, prune: true, dryRun: false, waiting: 'keep' },
            })
      expect(deleted.status).toBe(200)
      await ask(running, 'PUT', '/destinations/crm', settings)
      await post(running, [track('m2')])
      const status = await ask(running, 'GET', '/status')
      expect(status.body).toMatchObject({
        destinations: [{ name: 'crm', fresh: 2, paused: { reason: 'wrong events' } }],
      })
      expect(crm.received).toEqual([])
      await ask(running, 'POST', '/destinations/crm/resume', {})
      await crm.has(2)
    },
  )

  test('must not be that of the alerts, and one that is missing is warned of', async () => {
    const alerts = { destination: 'ops', afterMs: [3_600_000] }
    const { log, lines } = listening()
    const running = await start(managedSettings({ alerts }), log)
    expect(lines).toContainEqual({ destination: 'ops' })
    await ask(running, 'PUT', '/destinations/ops', {
      sources: [],
      webhooks: [{ url: 'https://ops.example.com/' }],
    })
    expect(await ask(running, 'DELETE', '/destinations/ops')).toMatchObject({
      status: 409,
      body: { error: { code: 'destination_in_use' } },
    })
  })
})

test('a destination at an address that is no longer allowed is warned of, and can be disabled', async () => {
  const { log, lines } = listening()
  const settings = managedSettings()
  const running = await start(settings, log)
  const webhooks = [{ url: 'http://127.0.0.1:9/' }]
  await ask(running, 'PUT', '/destinations/crm', { sources: ['web'], webhooks })
  await running.reload({ ...settings, allowNetworks: [] })
  await expect
    .poll(() => lines)
    .toContainEqual({ destination: 'crm', problem: expect.stringContaining('127.0.0.1') as string })
  expect((await ask(running, 'PATCH', '/destinations/crm', { enabled: false })).status).toBe(200)
  expect((await ask(running, 'POST', '/destinations/crm/rotation')).status).toBe(200)
  const moved = { webhooks: [{ url: 'http://127.0.0.1:10/' }] }
  expect(await ask(running, 'PATCH', '/destinations/crm', moved)).toMatchObject({
    status: 400,
    body: { error: { problems: [{ path: 'webhooks[0].url' }] } },
  })
})

test('two endpoints that differ only in their queries keep them when they are sent back', async () => {
  const running = await start(managedSettings())
  const webhooks = [1, 2].map((key) => ({
    url: `https://crm.example.com/?key=${key}`,
    headers: { 'X-Key': `${key}` },
  }))
  await ask(running, 'PUT', '/destinations/crm', { sources: ['web'], webhooks })
  const { body } = await ask(running, 'GET', '/destinations/crm')
  expect(await ask(running, 'PUT', '/destinations/crm', body.settings)).toMatchObject({
    status: 200,
    body: { changed: false },
  })
})

test('a patch of 20,000 levels is refused, and names the field', async () => {
  const running = await start(managedSettings())
  await ask(running, 'PUT', '/sources/app', {})
  const deep = `${'{"a":'.repeat(20_000)}1${'}'.repeat(20_000)}`
  const refused = await ask(running, 'PATCH', '/sources/app', `{"rateLimit":${deep}}`)
  expect(refused).toMatchObject({
    status: 400,
    body: { error: { code: 'invalid_settings' } },
  })
})

test('an empty list or object in the audit log is one, and no text', async () => {
  const running = await start(managedSettings())
  const webhooks = [{ url: 'https://crm.example.com/' }]
  await ask(running, 'PUT', '/destinations/crm', { sources: [], filters: [], webhooks })
  const { body } = await ask(running, 'GET', '/audit')
  expect(body.entries[0]?.changes).toContainEqual({ path: 'filters', to: [] })
  expect(body.entries[0]?.changes).toContainEqual({ path: 'webhooks[0].headers', to: {} })
})
