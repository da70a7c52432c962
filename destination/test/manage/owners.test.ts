// The name of a destination stays with its tenant, because the store has messages by this name.
import { describe, expect, onTestFinished, test } from 'vitest'
import { Pauses } from '../../src/deliver/pauses.js'
import { Managed } from '../../src/manage/managed.js'
import { Changes } from '../../src/manage/changes.js'
import { freeNames, keepOwners, Owners } from '../../src/manage/owners.js'
import type { RunningDestination } from '../../src/destination.js'
import type { Stats } from '../../src/model/delivery.js'
import { HISTORY_SPANS } from '../../src/model/history.js'
import { Past } from '../../src/operate/past.js'
import { Follower } from '../../src/store/follower.js'
import { openStore } from '../../src/store/open.js'
import { StoreError } from '../../src/store/store-error.js'
import type { RecordChange } from '../../src/store/store.js'
import type { Destination, Settings, Tenant } from '../../src/settings/settings.js'
import { destination, endpoint, post, settingsFor, start, track } from '../run.js'
import { dice } from '../simulation/chance.js'
import { ask, SETTINGS_KEY } from './api.js'

const seed = Number(process.env['SEED'] ?? Math.floor(Math.random() * 1e9))
const STEPS = 150

/** The counts of a destination for which nothing is stored. */
const NONE = { fresh: 0, backlog: 0, bulk: 0, leased: 0, dead: 0, oldestMs: 0 }

const TENANTS = ['ann', 'ben'] as const
const tenants: Tenant[] = TENANTS.map((name) => ({ name, portal: { editUrls: false } }))
const sources = [
  ...TENANTS.map((tenant) => ({ name: `of-${tenant}`, writeKey: tenant, tenant })),
  { name: 'of-non', writeKey: 'non' },
]

const settingsWith = (changes: Partial<Settings> = {}, files: Destination[] = []): Settings =>
  settingsFor(files, { settingsKeys: [SETTINGS_KEY], tenants, sources, ...changes })

const namesOther = (owner: string) => ({
  status: 400,
  body: {
    error: { problems: [{ path: 'tenant', message: expect.stringContaining(owner) as string }] },
  },
})

test(`no call reaches another tenant, whatever becomes of the destinations: SEED=${seed}`, async () => {
  const { pick, chance } = dice(seed)
  const receiver = await endpoint((response) =>
    response.writeHead(pick([204, 204, 400, 503])).end(),
  )
  const settings = settingsWith()
  let running = await start(settings)
  const owners = new Map<string, string>()
  const present = new Map<string, string>()
  for (let step = 0; step < STEPS; step++) {
    const which = `SEED=${seed}, step ${step}`
    const name = pick(['x', 'y', 'z'])
    const whose = pick([...TENANTS, 'non'])
    const wanted = {
      ...(whose !== 'non' && { tenant: whose }),
      sources: [`of-${whose}`],
      webhooks: [{ url: `${receiver.url}/${whose}` }],
    }
    const path = `/destinations/${name}`
    const mayHave = [undefined, whose].includes(owners.get(name))
    // A destination that there is may be given to a tenant or be taken back, with all that the store has for it.
    const isGiven = present.has(name) && [whose, present.get(name)].includes('non')
    const act = pick(['put', 'patch', 'apply', 'delete', 'call', 'call', 'replay', 'restart'])
    if (isGiven && ['put', 'patch', 'apply'].includes(act)) continue
    if (act === 'put' || (act === 'patch' && present.has(name))) {
      const { status } = await ask(running, act.toUpperCase(), path, wanted)
      expect(status < 300, which).toBe(mayHave)
    } else if (act === 'apply') {
      const given = { settings: { destinations: [{ name, ...wanted }] }, dryRun: chance(0.3) }
      const { status } = await ask(running, 'POST', '/settings', given)
      expect(status === 200, which).toBe(mayHave)
      if (given.dryRun) continue
    } else if (act === 'delete') {
      const { status } = await ask(
        running,
        'DELETE',
        `${path}?waiting=${pick(['keep', 'discard'])}`,
      )
      if (status === 200) {
        owners.set(name, owners.get(name) ?? 'non')
        present.delete(name)
      }
      continue
    } else if (act === 'call') {
      await post(running, [track(`${whose}-${step}`)], whose)
      continue
    } else if (act === 'replay') {
      await ask(running, 'POST', '/replay', { all: true, dryRun: false })
      continue
    } else if (act === 'restart' && chance(0.3)) {
      await running.close()
      running = await start(settings)
      continue
    } else continue
    if (!mayHave) continue
    present.set(name, whose)
    if (whose === 'non') owners.delete(name)
    else owners.set(name, whose)
  }
  const strangers = receiver.received.filter(
    ({ path, headers }) => !path.endsWith(`/${String(headers['x-message-id']).slice(0, 3)}`),
  )
  expect(strangers, `SEED=${seed}`).toEqual([])
  expect(receiver.received.length).toBeGreaterThan(0)
})

/** A destination of `ann` with a message that waits, and then none of that name. */
async function deletedWithMessage(running: RunningDestination): Promise<void> {
  const wanted = {
    ...{ tenant: 'ann', sources: ['of-ann'], enabled: false },
    webhooks: [{ url: 'http://127.0.0.1:9/' }],
  }
  await ask(running, 'PUT', '/destinations/hook', wanted)
  await ask(running, 'PATCH', '/destinations/hook', { enabled: true })
  await ask(running, 'POST', '/destinations/hook/pause', { reason: 'test' })
  await post(running, [track('m')], 'ann')
  expect(await ask(running, 'DELETE', '/destinations/hook?waiting=keep')).toMatchObject({
    status: 200,
    body: { waiting: 1 },
  })
}

const DAY = 86_400_000

/** Makes the time for which names were not used longer, in a store that no process has open. */
async function letPass(ms: number, { store: place }: Settings): Promise<void> {
  const store = await openStore(place)
  const { records } = await store.records(0, 100)
  const changes = records.flatMap(({ kind, name, version, body }): RecordChange[] => {
    const stored = JSON.parse(body ?? '{}') as { unusedSince?: number }
    if (kind !== 'owner' || stored.unusedSince === undefined) return []
    const earlier = { ...stored, unusedSince: stored.unusedSince - ms }
    return [{ kind, name, version, body: JSON.stringify(earlier) }]
  })
  expect(changes).not.toEqual([])
  await store.writeRecords(changes)
  await store.close()
}

const ofBen = { tenant: 'ben', sources: ['of-ben'], webhooks: [{ url: 'http://127.0.0.1:9/' }] }

describe('a name', () => {
  test('is refused to another tenant, and free for its own', async () => {
    const running = await start(settingsWith())
    await deletedWithMessage(running)
    const refused = await ask(running, 'PUT', '/destinations/hook', ofBen)
    expect(refused).toMatchObject(namesOther('"ann"'))
    const none = { ...ofBen, tenant: undefined }
    expect(await ask(running, 'PUT', '/destinations/hook', none)).toMatchObject(
      namesOther('expected "ann", got nothing'),
    )
    const own = { ...ofBen, tenant: 'ann', sources: ['of-ann'] }
    expect(await ask(running, 'PUT', '/destinations/hook', own)).toMatchObject({ status: 201 })
    // It is taken back, and does not go on to another tenant.
    expect(await ask(running, 'PUT', '/destinations/hook', none)).toMatchObject({ status: 200 })
    expect(await ask(running, 'PUT', '/destinations/hook', ofBen)).toMatchObject(
      namesOther('"ann"'),
    )
  })

  test.each(['the API', 'the file'])(
    'that was taken back is only for the operator, once the destination has left %s',
    async (where) => {
      const receiver = await endpoint()
      const inFile = (tenant?: string) =>
        destination([receiver], {
          name: 'hook',
          ...(tenant !== undefined && { tenant }),
          sources: [`of-${tenant ?? 'non'}`],
        })
      const given = (tenant?: string) => ({
        ...ofBen,
        tenant,
        sources: [`of-${tenant ?? 'non'}`],
        webhooks: [{ url: receiver.url }],
      })
      const settings = settingsWith()
      const running = await start(settings)
      const put = (tenant?: string) => ask(running, 'PUT', '/destinations/hook', given(tenant))
      for (const tenant of ['ann', undefined]) {
        if (where === 'the API') await put(tenant)
        else await running.reload({ ...settings, destinations: [inFile(tenant)] })
      }
      await post(running, [track('m')], 'non')
      await expect.poll(() => receiver.received.length).toBe(1)
      if (where === 'the API') await ask(running, 'DELETE', '/destinations/hook')
      else await running.reload(settings)
      for (const tenant of TENANTS) {
        expect(await put(tenant)).toMatchObject(namesOther(`expected no tenant, got "${tenant}"`))
      }
      expect(await put()).toMatchObject({ status: 201 })
      // The store still has what was sent to it while it was a tenant's.
      expect(await put('ben')).toMatchObject(namesOther('expected "ann", got "ben"'))
      expect(await put('ann')).toMatchObject({ status: 200 })
    },
  )

  test('is refused to another tenant in the file too, at a reload and at a start', async () => {
    const inFile = (tenant: string) =>
      destination([], { name: 'hook', tenant, sources: [`of-${tenant}`] })
    const settings = settingsWith({}, [inFile('ann')])
    const running = await start(settings)
    const other = { ...settings, destinations: [inFile('ben')] }
    const problems = [
      {
        path: 'destinations[0].tenant',
        message: expect.stringMatching(/^expected "ann", got "ben"/) as string,
      },
    ]
    await expect(running.reload(other)).rejects.toMatchObject({ problems })
    await running.reload({ ...settings, destinations: [] })
    await expect(running.reload(other)).rejects.toMatchObject({ problems })
    await running.close()
    await expect(start(other)).rejects.toMatchObject({ problems })
    await start(settings)
  })

  test.each(['at a reload', 'while nobody watches'])(
    'of a destination without a tenant is refused to a tenant once it has left the file %s',
    async (when) => {
      const receiver = await endpoint()
      const inFile = destination([receiver], { name: 'hook', sources: ['of-non'] })
      const settings = settingsWith({}, [inFile])
      const without = { ...settings, destinations: [] }
      let running = await start(settings)
      await post(running, [track('m')], 'non')
      await expect.poll(() => receiver.received.length).toBe(1)
      if (when === 'at a reload') await running.reload(without)
      else {
        await running.close()
        running = await start(without)
      }
      // Nothing waits and nothing is dead, but the message is shown as delivered.
      const refused = await ask(running, 'PUT', '/destinations/hook', ofBen)
      expect(refused).toMatchObject(namesOther('expected no tenant, got "ben"'))
      const none = { ...ofBen, tenant: undefined, sources: ['of-non'] }
      expect(await ask(running, 'PUT', '/destinations/hook', none)).toMatchObject({ status: 201 })
    },
  )

  test('of a destination that is just leaving the file is refused to a tenant', async () => {
    const inFile = destination([await endpoint()], { name: 'hook', sources: ['of-non'] })
    const settings = settingsWith({}, [inFile])
    const running = await start(settings)
    const reloading = { isOver: false }
    const asked: Promise<{ status: number }>[] = []
    const left = running
      .reload({ ...settings, destinations: [] })
      .then(() => (reloading.isOver = true))
    // One of the requests comes between the reload and the note in the store that the name is not used any more.
    while (!reloading.isOver) {
      asked.push(ask(running, 'PUT', '/destinations/hook', ofBen))
      await new Promise((resolve) => setImmediate(resolve))
    }
    await left
    const statuses = (await Promise.all(asked)).map(({ status }) => status)
    expect([...new Set(statuses)].filter((status) => ![400, 409].includes(status))).toEqual([])
  })

  test('is free again after the retention', async () => {
    const settings = settingsWith({ retentionMs: 1 })
    const first = await start(settings)
    await ask(first, 'PUT', '/destinations/hook', { ...ofBen, tenant: 'ann', sources: ['of-ann'] })
    await ask(first, 'DELETE', '/destinations/hook')
    await first.close()
    await letPass(8 * DAY, settings)
    // Each start begins with a sweep.
    await expect
      .poll(async () => {
        const running = await start(settings)
        const { status } = await ask(running, 'PUT', '/destinations/hook', ofBen)
        await running.close()
        return status
      })
      .toBe(201)
  })

  test('that is free again is not paused any more', async () => {
    const settings = settingsWith({ retentionMs: 1 })
    const first = await start(settings)
    await ask(first, 'PUT', '/destinations/hook', { ...ofBen, sources: [] })
    await ask(first, 'POST', '/destinations/hook/pause', { reason: 'test' })
    await ask(first, 'DELETE', '/destinations/hook?waiting=keep')
    await first.close()
    await letPass(8 * DAY, settings)
    await expect
      .poll(async () => {
        const running = await start(settings)
        const { body } = await ask(running, 'GET', '/destinations/hook')
        const none = { ...ofBen, tenant: undefined }
        const { status } = await ask(running, 'PUT', '/destinations/hook', none)
        const { text } = await ask(running, 'GET', '/status')
        await running.close()
        return [body.error.code, status, JSON.parse(text) as object]
      })
      .toMatchObject(['unknown_destination', 201, { destinations: [{ paused: null }] }])
  })

  test('is not free while the store has messages for it', async () => {
    let time = 1_700_000_000_000
    const owners = new Owners(() => time)
    const take = (changes: RecordChange[]) => {
      owners.take(
        changes.map((change) => ({ ...change, version: change.version + 1 })),
        false,
      )
    }
    take(owners.used([{ name: 'hook', tenant: 'ann' }]))
    let stats = [{ ...NONE, destination: 'hook', dead: 1 }]
    const store = { completeStats: () => Promise.resolve(stats) }
    const free = async () => {
      const changes = [...owners.unused([], stats), ...(await owners.free([], 8 * DAY, store))]
      take(changes)
      return changes.map(({ body }) => body === undefined)
    }
    expect(await free()).toEqual([false]) // it is noted that no destination has it
    expect(await free()).toEqual([])
    time += 8 * DAY + 1
    expect(await free()).toEqual([])
    stats = []
    time -= 1
    expect(await free()).toEqual([]) // the store's clock does not show the end of the retention yet
    time += 1
    expect(await free()).toEqual([true])
    expect(owners.refusal('hook', 'ben')).toBeUndefined()
  })

  test('is not free while a server of the store is away, because that may have messages for it', async () => {
    let time = 1_700_000_000_000
    const owners = new Owners(() => time)
    const unused = owners.unused([], [{ ...NONE, destination: 'hook' }])
    owners.take(
      unused.map((change) => ({ ...change, version: 1 })),
      false,
    )
    time += 8 * DAY
    const freeIf = (completeStats: () => Promise<Stats[]>) =>
      owners.free([], 60_000, { completeStats })
    const away = new StoreError('failed', 'away', { isUnreachable: true, server: 'b' })
    expect(await freeIf(() => Promise.reject(away))).toEqual([])
    const broken = new StoreError('failed', 'no such table', { server: 'b' })
    await expect(freeIf(() => Promise.reject(broken))).rejects.toBe(broken)
    expect(await freeIf(() => Promise.resolve([]))).toMatchObject([{ name: 'hook', version: 1 }])
  })

  test('is not free while charts show what happened at its endpoints, however short the retention is', async () => {
    let time = 1_700_000_000_000
    const store = await openStore(settingsWith().store, { now: () => time })
    onTestFinished(() => store.close())
    const url = 'https://ann.example.com/'
    const counts = { delivered: 37, failed: 0, busy: 0, breaker: 'closed' as const, bins: [] }
    await store.addHistory([{ destination: 'hook', url, ...counts }])
    const owners = new Owners(() => time)
    const unused = owners.unused([], [{ ...NONE, destination: 'hook' }])
    owners.take(
      unused.map((change) => ({ ...change, version: 1 })),
      false,
    )
    const end = time + 9 * DAY
    while (time < end && (await owners.free([], 60_000, store)).length === 0) time += DAY / 24
    expect(time).toBeLessThan(end)
    for (const span of HISTORY_SPANS) {
      const shown = await new Past(store, { saveIfSmall: () => Promise.resolve() }).read(span)
      expect([span, shown.get('hook')]).toEqual([span, undefined])
    }
  })

  test('of a destination stays in use, and paused, though a process with former settings says that nothing has it', async () => {
    let time = 1_700_000_000_000
    const store = await openStore(settingsWith().store, { now: () => time })
    onTestFinished(() => store.close())
    const processWith = async (destinations: Destination[]) => {
      const managed = await Managed.open(settingsWith({}, destinations), store.clock.now)
      const follower = new Follower(store, async (...changes) => {
        await managed.take(...changes)
      })
      const pauses = await Pauses.open(store)
      const changes = new Changes({ store, managed, follower, pauses })
      const parts = { store, managed, follower, pauses, changes }
      return { managed, parts, pauses }
    }
    const hook = destination([], { name: 'hook', tenant: 'ann', sources: [] })
    const former = await processWith([])
    const present = await processWith([hook])
    await keepOwners(present.parts)
    await present.pauses.pause(
      'hook',
      { reason: 'not yet', by: 'operator' },
      { by: 'ann', from: null },
    )

    // It ends a sweep, and is then stopped.
    await freeNames(former.parts, 60_000)
    time += 8 * DAY
    await freeNames(present.parts, 60_000)
    await freeNames(present.parts, 60_000)
    expect(present.pauses.of('hook')).toMatchObject({ reason: 'not yet' })
    expect(present.managed.owners.refusal('hook', 'ben')).toContain('expected "ann"')
    // The operator may take it back: it is in use.
    expect(present.managed.owners.refusal('hook')).toBeUndefined()
  })
})

describe('the destination of the alerts', () => {
  const alerts = { destination: 'ops', afterMs: [60_000] } as Settings['alerts']

  test('belongs to no tenant, because the alerts name the destinations of all', async () => {
    const running = await start(settingsWith({ alerts }))
    const refused = await ask(running, 'PUT', '/destinations/ops', ofBen)
    expect(refused).toMatchObject({
      status: 400,
      body: {
        error: {
          problems: [
            {
              path: 'tenant',
              message: expect.stringMatching(/^expected no tenant, got "ben"/) as string,
            },
          ],
        },
      },
    })
    const none = { ...ofBen, tenant: undefined }
    expect(await ask(running, 'PUT', '/destinations/ops', none)).toMatchObject({ status: 201 })
  })
})
