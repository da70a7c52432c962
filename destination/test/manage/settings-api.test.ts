import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { Managed } from '../../src/manage/managed.js'
import type { Settings } from '../../src/settings/settings.js'
import { openStore } from '../../src/store/open.js'
import type { Store } from '../../src/store/store.js'
import { destination, endpoint, KEY, post, settingsFor, silent, start, track } from '../run.js'
import { ask, OTHER_KEY, SETTINGS_KEY } from './api.js'

/** Settings with which sources and destinations may be kept in the store. */
const managedSettings = (changes: Partial<Settings> = {}): Settings =>
  settingsFor([], { settingsKeys: [SETTINGS_KEY], ...changes })

const webhooks = (url: string, changes: object = {}) => [{ url, ...changes }]

describe('a source', () => {
  test('that is created may send at once, with the key that was generated and is shown once', async () => {
    const running = await start(managedSettings())
    const created = await ask(running, 'PUT', '/sources/app', {})
    expect(created.status).toBe(201)
    const { writeKey = '' } = created.body.generated
    expect(writeKey).toMatch(/^[\w-]{32}$/)
    expect(created.body.item).toEqual({
      ...{ kind: 'source', name: 'app', origin: 'store', version: 1 },
      ...{ secrets: { writeKey: 1 }, settings: { name: 'app' } },
    })
    expect((await post(running, [track('m1')], writeKey)).status).toBe(200)
    const got = await ask(running, 'GET', '/sources/app')
    expect(got).toMatchObject({ status: 200, etag: '"1"', body: created.body.item })
    expect(got.text).not.toContain(writeKey)
    expect((await post(running, [track('m2')])).status).toBe(200)
  })

  test('has two keys during a rotation, and one after it', async () => {
    const running = await start(managedSettings())
    await ask(running, 'PUT', '/sources/app', { writeKey: 'first' })
    const rotated = await ask(running, 'POST', '/sources/app/rotation')
    const { writeKey = '' } = rotated.body.generated
    expect(rotated).toMatchObject({ status: 200, body: { item: { secrets: { writeKey: 2 } } } })
    const statuses = async () => [
      (await post(running, [track('m')], 'first')).status,
      (await post(running, [track('m')], writeKey)).status,
    ]
    expect(await statuses()).toEqual([200, 200])
    expect(await ask(running, 'POST', '/sources/app/rotation')).toMatchObject({
      status: 409,
      body: { error: { code: 'rotation_under_way' } },
    })
    expect((await ask(running, 'DELETE', '/sources/app/rotation')).status).toBe(200)
    expect(await statuses()).toEqual([401, 200])
    expect(await ask(running, 'DELETE', '/sources/app/rotation')).toMatchObject({
      status: 409,
      body: { error: { code: 'no_rotation' } },
    })
  })

  test('keeps the old key if the rotation is taken back', async () => {
    const running = await start(managedSettings())
    await ask(running, 'PUT', '/sources/app', { writeKey: 'first' })
    await ask(running, 'POST', '/sources/app/rotation')
    await ask(running, 'DELETE', '/sources/app/rotation?keep=old')
    expect((await post(running, [track('m')], 'first')).status).toBe(200)
  })

  test('that a destination takes can not be deleted, and the answer names the destination', async () => {
    const running = await start(managedSettings())
    await ask(running, 'PUT', '/sources/app', {})
    const crm = { sources: ['app'], webhooks: webhooks('https://a.example.com/') }
    await ask(running, 'PUT', '/destinations/crm', crm)
    const refused = await ask(running, 'DELETE', '/sources/app')
    expect(refused).toMatchObject({ status: 409, body: { error: { code: 'source_in_use' } } })
    expect(refused.body.error.message).toContain('"crm"')
    await ask(running, 'PATCH', '/destinations/crm', { sources: [] })
    expect((await ask(running, 'DELETE', '/sources/app')).status).toBe(200)
    expect((await ask(running, 'GET', '/sources/app')).status).toBe(404)
  })
})

describe('a destination', () => {
  test('that is created gets the calls of its sources, signed with the generated secret', async () => {
    const crm = await endpoint(204)
    const running = await start(managedSettings())
    const created = await ask(running, 'PUT', '/destinations/crm', {
      sources: ['web'],
      webhooks: webhooks(crm.url, { headers: { 'X-Team': 'growth' } }),
    })
    expect(created.status).toBe(201)
    expect(created.body.generated).toEqual({
      sharedSecret: expect.stringMatching(/^[\da-f]{64}$/) as string,
    })
    expect(created.body.item.settings).toEqual({
      ...{ name: 'crm', sources: ['web'], enabled: true },
      webhooks: [{ url: crm.url, headers: { 'X-Team': '•••' }, concurrency: 128 }],
    })
    await post(running, [track('m1')])
    await crm.has(1)
    const headers = crm.received[0]?.headers
    expect(headers?.['x-team']).toBe('growth')
    expect(headers?.['x-signature']).toMatch(/^[\da-f]{40}$/)
  })

  test('is unsigned only if null is given for its secret', async () => {
    const running = await start(managedSettings())
    const crm = { sources: ['web'], webhooks: webhooks('https://a.example.com/') }
    const created = await ask(running, 'PUT', '/destinations/crm', { ...crm, sharedSecret: null })
    expect(created.body).toMatchObject({ generated: {}, item: { secrets: { sharedSecret: 0 } } })
    // A replacement does not add a secret that nobody has asked for.
    const replaced = await ask(running, 'PUT', '/destinations/crm', crm)
    expect(replaced.body).toMatchObject({ changed: false, generated: {} })
    const signed = await ask(running, 'POST', '/destinations/crm/rotation?secret=webhookSecret')
    expect(signed.body.generated['webhookSecret']).toMatch(/^whsec_/)
    expect(signed.body.item.secrets).toEqual({ sharedSecret: 0, webhookSecret: 1 })
  })

  test('can be replaced by what is shown of it: values that are not shown stay', async () => {
    const crm = await endpoint(204)
    const running = await start(managedSettings())
    await ask(running, 'PUT', '/destinations/crm', {
      sources: ['web'],
      sharedSecret: 'hush',
      webhooks: webhooks(`${crm.url}?key=hidden`, { headers: { 'X-Team': 'growth' } }),
    })
    const { body } = await ask(running, 'GET', '/destinations/crm')
    expect(body.settings['webhooks']).toMatchObject([{ url: `${crm.url}?•••` }])
    expect(await ask(running, 'PUT', '/destinations/crm', body.settings)).toMatchObject({
      status: 200,
      body: { changed: false },
    })
    const changed = { ...body.settings, enabled: false }
    await ask(running, 'PUT', '/destinations/crm', changed)
    await ask(running, 'PUT', '/destinations/crm', body.settings)
    await post(running, [track('m1')])
    await crm.has(1)
    expect(crm.received[0]).toMatchObject({
      path: '/hook?key=hidden',
      headers: { 'x-team': 'growth', 'x-signature': expect.any(String) as string },
    })
  })

  test('does not take the mark of a hidden value for a secret', async () => {
    const running = await start(managedSettings())
    const crm = { sources: [], webhooks: webhooks('https://a.example.com/') }
    const hidden = '•••'
    const put = (webhookSecret: string) =>
      ask(running, 'PUT', '/destinations/crm', { ...crm, webhookSecret })
    const made = await put(hidden)
    expect(Object.keys(made.body.generated)).toEqual(['sharedSecret', 'webhookSecret'])
    expect(made.text).not.toContain(hidden)
    expect(await put(hidden)).toMatchObject({ status: 200, body: { changed: false } })
    const answers = await Promise.all([
      ask(running, 'PUT', '/sources/app', { writeKey: ['a', hidden] }),
      ask(running, 'PATCH', '/destinations/crm', { sharedSecret: hidden }),
      ask(running, 'PATCH', '/destinations/crm', { webhookSecret: ['whsec_', hidden] }),
    ])
    for (const { status, body } of answers) {
      expect(status).toBe(400)
      expect(body.error.problems?.[0]?.message).toMatch(/Secrets are not shown|whsec_/)
    }
  })

  test('refuses a hidden value with something beside it, and keeps what there is', async () => {
    const crm = await endpoint()
    const running = await start(managedSettings())
    const made = { headers: { 'X-Token': 'hush' } }
    await ask(running, 'PUT', '/destinations/crm', {
      sources: ['web'],
      webhooks: webhooks(`${crm.url}?key=hidden`, made),
    })
    const mark = '•••'
    const wrong: [object, string, RegExp][] = [
      ...[`?${mark}&v=2`, `?key=${mark}`, `?${encodeURI(mark)}`, `?v=2?${mark}`, `/${mark}`].map(
        (end): [object, string, RegExp] => [
          { url: crm.url + end },
          'webhooks[0].url',
          /^expected a URL without •••.* Write the whole query, or leave it as \?•••\.$/,
        ],
      ),
      [
        { url: `${crm.url}?${mark}`, headers: { 'X-Token': `Bearer ${mark}` } },
        'webhooks[0].headers["X-Token"]',
        /^expected a value without •••.* Write the whole value, or leave it as •••\.$/,
      ],
    ]
    for (const [webhook, path, message] of wrong) {
      const settings = { sources: ['web'], webhooks: [webhook] }
      const many = { settings: { destinations: [{ name: 'crm', ...settings }] } }
      const answers = [
        [await ask(running, 'PATCH', '/destinations/crm', { webhooks: [webhook] }), path],
        [await ask(running, 'PUT', '/destinations/crm', settings), path],
        [await ask(running, 'POST', '/settings', many), `destinations[0].${path}`],
      ] as const
      for (const [answer, path] of answers) {
        const problems = [{ path, message: expect.stringMatching(message) as string }]
        expect(answer).toMatchObject({ status: 400, body: { error: { problems } } })
      }
    }
    await post(running, [track('m1')])
    await crm.has(1)
    expect(crm.received[0]).toMatchObject({
      path: '/hook?key=hidden',
      headers: { 'x-token': 'hush' },
    })
  })

  test('never sends a hidden value to another URL', async () => {
    const running = await start(managedSettings())
    await ask(running, 'PUT', '/destinations/crm', {
      sources: ['web'],
      webhooks: webhooks('https://a.example.com/x?key=1', { headers: { 'X-Token': 'hush' } }),
    })
    const header = 'webhooks[0].headers["X-Token"]'
    const wrong: [string, string[]][] = [
      ['https://evil.example.com/x', [header]],
      ['https://evil.example.com/x?•••', ['webhooks[0].url', header]],
    ]
    for (const [url, paths] of wrong) {
      const answer = await ask(running, 'PATCH', '/destinations/crm', {
        webhooks: webhooks(url, { headers: { 'X-Token': '•••' } }),
      })
      const message = expect.stringMatching(/because no endpoint has (had )?this/) as string
      const problems = paths.map((path) => ({ path, message }))
      const error = { code: 'invalid_settings', problems }
      expect(answer).toMatchObject({ status: 400, body: { error } })
    }
  })

  test('keeps the queries of endpoints that differ in nothing else, unless nobody knows which is meant', async () => {
    const crm = await endpoint()
    const running = await start(managedSettings())
    await ask(running, 'PUT', '/destinations/crm', {
      sources: ['web'],
      webhooks: [
        { url: `${crm.url}?k=1`, headers: { 'X-Token': 'one' }, concurrency: 7 },
        { url: `${crm.url}?k=2`, headers: { 'X-Token': 'two' }, concurrency: 9 },
      ],
    })
    const { body } = await ask(running, 'GET', '/destinations/crm')
    const [first, second] = body.settings['webhooks'] as [object, object]
    const hidden = { url: `${crm.url}?•••`, headers: { 'X-Token': '•••' } }
    expect([first, second]).toEqual([
      { ...hidden, concurrency: 7 },
      { ...hidden, concurrency: 9 },
    ])
    const other = { url: 'https://a.example.com/' }
    const without = (...left: object[]) => ({ ...body.settings, webhooks: left })
    const refused = [without(second), without(second, other), without(first, first, second)]
    for (const settings of refused) {
      const many = { settings: { destinations: [settings] } }
      const path = 'webhooks[0].url'
      const answers = [
        [await ask(running, 'PUT', '/destinations/crm', settings), path],
        [await ask(running, 'POST', '/settings', many), `destinations[0].${path}`],
      ] as const
      const message = expect.stringContaining('more than one endpoint has this one') as string
      for (const [answer, path] of answers) {
        const problems = expect.arrayContaining([{ path, message }]) as object[]
        expect(answer).toMatchObject({ status: 400, body: { error: { problems } } })
      }
    }
    // The one that is left is named in full, or follows from those that are.
    const named = { ...first, url: `${crm.url}?k=1` }
    for (const left of [
      [other, first, second],
      [second, named],
    ]) {
      const answer = await ask(running, 'PUT', '/destinations/crm', without(...left))
      expect(answer).toMatchObject({ status: 200, body: { changed: true } })
    }
    await post(running, [track('m1')])
    await crm.has(2)
    const got = crm.received.map(({ path, headers }) => [path, headers['x-token']])
    expect(got.sort()).toEqual([
      ['/hook?k=1', 'one'],
      ['/hook?k=2', 'two'],
    ])
    const last = { ...hidden, url: `${crm.url}?k=2`, concurrency: 9 }
    await ask(running, 'PUT', '/destinations/crm', without(last))
    await post(running, [track('m2')])
    await crm.has(3)
    expect(crm.received[2]).toMatchObject({ path: '/hook?k=2', headers: { 'x-token': 'two' } })
  })

  test('that is disabled gets nothing, and keeps what waits', async () => {
    const crm = await endpoint(503)
    const running = await start(managedSettings())
    await ask(running, 'PUT', '/destinations/crm', {
      sources: ['web'],
      webhooks: webhooks(crm.url),
    })
    await post(running, [track('m1')])
    await crm.has(1)
    expect((await ask(running, 'PATCH', '/destinations/crm', { enabled: false })).status).toBe(200)
    await post(running, [track('m2')])
    crm.answer(204)
    await vi.waitUntil(async () => (await running.stats())[0]?.backlog === 1, 60_000)
    expect((await ask(running, 'PATCH', '/destinations/crm', { enabled: true })).status).toBe(200)
    await vi.waitUntil(async () => (await running.stats()).length === 0, 60_000)
    expect(crm.received.map(({ headers }) => headers['x-message-id'])).toEqual(['m1', 'm1'])
  })

  test('is deleted with an explicit choice for what waits', async () => {
    const crm = await endpoint(503)
    const running = await start(managedSettings())
    const settings = { sources: ['web'], webhooks: webhooks(crm.url) }
    await ask(running, 'PUT', '/destinations/crm', settings)
    await post(running, [track('m1'), track('m2')])
    await vi.waitUntil(async () => (await running.stats())[0]?.backlog === 2, 60_000)
    const refused = await ask(running, 'DELETE', '/destinations/crm')
    expect(refused).toMatchObject({
      status: 409,
      body: {
        error: {
          code: 'messages_waiting',
          message: expect.stringMatching(
            /^2 messages wait .* keep them .* delete them\.$/,
          ) as string,
          waiting: 2,
        },
      },
    })
    expect(await ask(running, 'DELETE', '/destinations/crm?waiting=keep')).toMatchObject({
      status: 200,
      body: { discarded: 0, waiting: 2 },
    })
    expect((await ask(running, 'GET', '/destinations/crm')).status).toBe(404)
    expect((await ask(running, 'DELETE', '/destinations/crm')).status).toBe(404)
    // As after a deletion that was interrupted.
    expect(await ask(running, 'DELETE', '/destinations/crm?waiting=discard')).toMatchObject({
      status: 200,
      body: { discarded: 2, waiting: 0 },
    })
    expect(await running.stats()).toEqual([])
    const message =
      'There is no message "m1". It never arrived, it was deleted or discarded, or it is older than the retention.'
    expect(await ask(running, 'GET', '/messages/m1')).toMatchObject({
      status: 404,
      body: { error: { message } },
    })
    crm.answer(204)
    const { length } = crm.received
    await ask(running, 'PUT', '/destinations/crm', settings)
    await post(running, [track('m1')])
    await crm.has(length + 1)
    expect(crm.received.at(-1)?.headers['x-message-id']).toBe('m1')
  })

  test(
    'that is made again while messages of the former one are discarded keeps its own',
    { tags: 'long' },
    async () => {
      const crm = await endpoint(503)
      const running = await start(managedSettings())
      const settings = { sources: ['web'], webhooks: webhooks(crm.url) }
      await ask(running, 'PUT', '/destinations/crm', settings)
      const many = Array.from({ length: 600 }, (_, n) => track(`old-${n}`))
      await post(running, many)
      await vi.waitUntil(async () => (await running.stats())[0]?.leased === 0, 60_000)
      const other = await openStore(managedSettings().store)
      onTestFinished(() => other.close())
      const discarding = vi.spyOn(Object.getPrototypeOf(other) as Store, 'discard')
      onTestFinished(() => {
        discarding.mockRestore()
      })
      discarding.mockImplementationOnce(async function (this: Store, ...slice) {
        const count = await this.discard(...slice)
        expect((await ask(running, 'PUT', '/destinations/crm', settings)).status).toBe(201)
        expect((await post(running, [track('new')])).status).toBe(200)
        return count
      })
      const { body } = await ask(running, 'DELETE', '/destinations/crm?waiting=discard')
      expect(body).toEqual({ discarded: 500, waiting: 101 })
    },
  )
})

describe('a tenant', () => {
  test('has a title, quotas and what its portal allows, and no secrets', async () => {
    const running = await start(managedSettings())
    const settings = { title: 'Acme Ltd.', quotas: { callsPerSecond: 10 } }
    const created = await ask(running, 'PUT', '/tenants/acme', settings)
    expect(created).toMatchObject({ status: 201, etag: '"1"', body: { generated: {} } })
    expect(created.body.item).toEqual({
      ...{ kind: 'tenant', name: 'acme', origin: 'store', version: 1, secrets: {} },
      settings: {
        ...{ name: 'acme', title: 'Acme Ltd.' },
        ...{ quotas: { callsPerSecond: 10 }, portal: { editUrls: false } },
      },
    })
    await ask(running, 'PATCH', '/tenants/acme', { quotas: null, portal: { editUrls: true } })
    expect((await ask(running, 'GET', '/tenants?q=ltd')).body.items).toMatchObject([
      { settings: { name: 'acme', title: 'Acme Ltd.', portal: { editUrls: true } } },
    ])
    const { body } = await ask(running, 'GET', '/audit?kind=tenant&name=acme')
    expect(body.entries[0]?.changes).toEqual([
      { path: 'quotas.callsPerSecond', from: 10 },
      { path: 'portal.editUrls', from: false, to: true },
    ])
  })

  test('keeps its sources and destinations together, and is not deleted before them', async () => {
    const running = await start(managedSettings())
    await ask(running, 'PUT', '/tenants/acme', {})
    await ask(running, 'PUT', '/tenants/other', {})
    const problemOf = async (...request: Parameters<typeof ask>) => {
      const { status, body } = await ask(...request)
      return [status, body.error.problems?.[0]]
    }
    const crm = { tenant: 'acme', sources: ['app'], webhooks: webhooks('https://a.example.com/') }
    expect(await problemOf(running, 'PUT', '/sources/app', { tenant: 'acne' })).toEqual([
      400,
      {
        path: 'tenant',
        message: 'expected the name of one of the tenants ("acme", "other"), got "acne".',
      },
    ])
    await ask(running, 'PUT', '/sources/app', { tenant: 'acme' })
    expect(
      await problemOf(running, 'PUT', '/destinations/crm', { ...crm, tenant: 'other' }),
    ).toEqual([
      400,
      {
        path: 'sources[0]',
        message:
          'expected a source of the tenant "other", got "app", which belongs to the tenant "acme".',
      },
    ])
    expect((await ask(running, 'PUT', '/destinations/crm', crm)).status).toBe(201)
    for (const tenant of ['other', null]) {
      expect(await problemOf(running, 'PATCH', '/sources/app', { tenant })).toEqual([
        400,
        {
          path: 'tenant',
          message: `expected "acme", got ${tenant === null ? 'nothing' : '"other"'}, because the destination "crm" of this tenant takes the calls of the source. Change the destination first.`,
        },
      ])
    }
    const refused = await ask(running, 'DELETE', '/tenants/acme')
    expect(refused).toMatchObject({
      status: 409,
      body: {
        error: {
          code: 'tenant_in_use',
          message:
            'The tenant "acme" still has the sources "app" and the destinations "crm". Delete them first, or give them to another tenant.',
        },
      },
    })
    await ask(running, 'DELETE', '/destinations/crm')
    await ask(running, 'DELETE', '/sources/app')
    expect((await ask(running, 'DELETE', '/tenants/acme')).status).toBe(200)
    expect((await ask(running, 'GET', '/tenants/acme')).body.error.code).toBe('unknown_tenant')
  })

  test('of the file is not lost or exchanged while the store needs it', async () => {
    const tenants = ['acme', 'other'].map((name) => ({ name, portal: { editUrls: false } }))
    const web = { name: 'web', tenant: 'acme', writeKey: KEY }
    const settings = managedSettings({ tenants, sources: [web] })
    const running = await start(settings)
    const crm = { tenant: 'acme', sources: ['web'], webhooks: webhooks('https://a.example.com/') }
    expect((await ask(running, 'PUT', '/destinations/crm', crm)).status).toBe(201)
    const exchanged = { ...settings, sources: [{ ...web, tenant: 'other' }] }
    const lost = { ...settings, tenants: [], sources: [{ name: 'web', writeKey: KEY }] }
    await expect(running.reload(exchanged)).rejects.toThrow(
      'expected the source "web" of the tenant "acme", which the destination "crm" in the store takes. Change the destination first.',
    )
    await expect(running.reload(lost)).rejects.toThrow(
      'expected the tenant "acme", which the destination "crm" in the store belongs to. Change the destination first.',
    )
    await running.close()
    await expect(start(exchanged)).rejects.toThrow(
      'the destination "crm": it takes the calls of the source "web", which does not belong to its tenant "acme". Change one of the two.',
    )
    await expect(start(lost)).rejects.toThrow(
      'the destination "crm": it belongs to the tenant "acme", which is neither in the settings file nor in the store. Add the tenant.',
    )
  })
})

describe('every mistake', () => {
  test('is reported at once, in the words of the settings file', async () => {
    const running = await start(managedSettings({ allowNetworks: [] }))
    const wrong = {
      sources: ['web', 'none'],
      enabled: 'yes',
      sharedSecret: ' hush',
      webhook: [],
      webhooks: [{ url: 'ftp://a', concurrency: 0, headers: { Host: 'hush' } }],
    }
    const { status, body, text } = await ask(running, 'PUT', '/destinations/bad name', wrong)
    expect(status).toBe(400)
    expect(body.error.code).toBe('invalid_settings')
    expect(body.error.problems).toEqual(
      expect.arrayContaining([
        {
          path: 'name',
          message: 'expected a name of 1 to 64 letters, digits, "-" and "_", got "bad name".',
        },
        { path: 'enabled', message: 'expected true or false, got "yes".' },
        {
          path: 'sources[1]',
          message: 'expected the name of one of the sources ("web"), got "none".',
        },
        { path: 'webhook', message: 'there is no such field. Did you mean webhooks?' },
        {
          path: 'webhooks[0].concurrency',
          message: 'expected a whole number from 1 to 1,000, got 0.',
        },
      ]),
    )
    expect(body.error.problems?.map(({ path }) => path).sort()).toEqual([
      ...['enabled', 'name', 'sharedSecret', 'sources[1]', 'webhook'],
      ...['webhooks[0].concurrency', 'webhooks[0].headers.Host', 'webhooks[0].url'],
    ])
    expect(text).not.toContain('hush')
    const local = { sources: [], webhooks: webhooks('http://10.0.0.1/') }
    expect((await ask(running, 'PUT', '/destinations/crm', local)).body.error.problems).toEqual([
      {
        path: 'webhooks[0].url',
        message: expect.stringContaining('10.0.0.1 is not a public address') as string,
      },
    ])
    for (const host of ['a..b', '.a.example', 'a.example..']) {
      const wrong = { sources: [], webhooks: webhooks(`http://${host}/`) }
      expect((await ask(running, 'PUT', '/destinations/crm', wrong)).body.error.problems).toEqual([
        {
          path: 'webhooks[0].url',
          message: `${host} is not a host name, because a part beside a dot is empty. No message could be sent.`,
        },
      ])
    }
    const rooted = { sources: [], webhooks: webhooks('http://a.example./') }
    expect(await ask(running, 'PUT', '/destinations/crm', rooted)).toMatchObject({ status: 201 })
  })

  test('in a write key that another source has is found, in the file and in the store', async () => {
    const running = await start(managedSettings())
    await ask(running, 'PUT', '/sources/app', { writeKey: ['a', 'b'] })
    for (const [writeKey, owner] of [
      [KEY, 'web'],
      ['b', 'app'],
    ]) {
      const { body } = await ask(running, 'PUT', '/sources/new', { writeKey })
      expect(body.error.problems).toEqual([
        {
          path: 'writeKey',
          message: `is the same write key as that of the source "${owner}". Change or remove one of the two.`,
        },
      ])
    }
  })

  test('in a body that is no object in UTF-8 is refused', async () => {
    const running = await start(managedSettings())
    const latin1 = new Blob([Buffer.from('{ "writeKey": "é" }', 'latin1')])
    for (const body of ['', '[]', '7', '{"a"', latin1]) {
      expect(await ask(running, 'PUT', '/sources/app', body)).toMatchObject({
        status: 400,
        body: { error: { code: 'invalid_json' } },
      })
    }
    expect(
      (await ask(running, 'PUT', '/sources/app', { name: 'web' })).body.error.problems,
    ).toEqual([
      { path: 'name', message: 'expected the name in the path ("app"), or none, got "web".' },
    ])
  })
})

describe('an update', () => {
  test('of a rate keeps no burst that was never given', async () => {
    const running = await start(managedSettings())
    const sends = async (calls: number) => {
      const batch = Array.from({ length: calls }, (_, i) => track(`m${i}`))
      return (await post(running, batch, 'app-key')).status
    }
    await ask(running, 'PUT', '/tenants/acme', { quotas: { callsPerSecond: 5, waiting: 100 } })
    await ask(running, 'PUT', '/sources/app', {
      ...{ tenant: 'acme', writeKey: 'app-key', rateLimit: { callsPerSecond: 5 } },
    })
    expect(await sends(5)).toBe(200)
    expect(await sends(5)).toBe(429)
    const shown = (await ask(running, 'GET', '/sources/app')).body.settings
    expect(shown['rateLimit']).toEqual({ callsPerSecond: 5 })
    await ask(running, 'PUT', '/sources/app', { ...shown, rateLimit: { callsPerSecond: 1000 } })
    const { body } = await ask(running, 'GET', '/settings')
    expect(body.settings).toMatchObject({
      tenants: [{ quotas: { callsPerSecond: 5, waiting: 100 } }],
      sources: [{ rateLimit: { callsPerSecond: 1000 } }],
    })
    const quotas = { callsPerSecond: 1000 }
    await ask(running, 'POST', '/settings', { settings: { tenants: [{ name: 'acme', quotas }] } })
    for (const kind of ['sources/app', 'tenants/acme']) {
      const { text } = await ask(running, 'GET', `/${kind}`)
      expect(text).not.toContain('burst')
    }
    // What is given stays.
    await ask(running, 'PATCH', '/sources/app', { rateLimit: { burst: 2000 } })
    const last = (await ask(running, 'GET', '/sources/app')).body.settings
    expect(last['rateLimit']).toEqual({ callsPerSecond: 1000, burst: 2000 })
    // But the default, as a former page has stored it, follows the rate.
    const stored = { rateLimit: { callsPerSecond: 5, burst: 5 } }
    await ask(running, 'PUT', '/sources/stored', stored)
    await ask(running, 'PATCH', '/sources/stored', { rateLimit: { callsPerSecond: 1000 } })
    const patched = (await ask(running, 'GET', '/sources/stored')).body.settings
    expect(patched['rateLimit']).toEqual({ callsPerSecond: 1000 })
  })

  test('that another one came before is refused, and changes nothing', async () => {
    const running = await start(managedSettings())
    const { etag } = await ask(running, 'PUT', '/sources/app', {})
    const limit = (callsPerSecond: number) => ({ rateLimit: { callsPerSecond } })
    const match = { 'If-Match': etag ?? '' }
    const first = await ask(running, 'PATCH', '/sources/app', limit(1), match)
    expect(first.status).toBe(200)
    const second = await ask(running, 'PATCH', '/sources/app', limit(2), match)
    expect(second).toMatchObject({ status: 412, body: { error: { code: 'version_mismatch' } } })
    expect((await ask(running, 'DELETE', '/sources/app', undefined, match)).status).toBe(412)
    const { body } = await ask(running, 'GET', '/sources/app')
    expect(body.settings['rateLimit']).toEqual({ callsPerSecond: 1 })
    const now = { 'If-Match': `"7", ${first.etag ?? ''}` }
    expect((await ask(running, 'DELETE', '/sources/app', undefined, now)).status).toBe(200)
    // A version never comes back.
    const again = await ask(running, 'PUT', '/sources/app', {})
    expect(again.body.item.version).toBeGreaterThan(body.version ?? 0)
  })

  test('that removes a misspelled field is refused, with the right name', async () => {
    const running = await start(managedSettings())
    await ask(running, 'PUT', '/sources/app', { rateLimit: { callsPerSecond: 1 } })
    const patch = { rateLimt: null, tenant: null, ['__proto__']: null }
    expect(await ask(running, 'PATCH', '/sources/app', patch)).toMatchObject({
      status: 400,
      body: {
        error: {
          problems: [
            { path: 'rateLimt', message: 'there is no such field. Did you mean rateLimit?' },
            { path: '__proto__' },
          ],
        },
      },
    })
    const { status, body } = await ask(running, 'PATCH', '/sources/app', { rateLimit: null })
    expect(status).toBe(200)
    expect(body.item.settings).not.toHaveProperty('rateLimit')
  })

  test('that must create does so once: the same again is no error, and anything else is', async () => {
    const running = await start(managedSettings())
    const create = (body: object) =>
      ask(running, 'PUT', '/sources/app', body, { 'If-None-Match': '*' })
    expect(await create({ writeKey: 'k' })).toMatchObject({ status: 201, body: { created: true } })
    expect(await create({ writeKey: 'k' })).toMatchObject({
      status: 200,
      body: { created: false, changed: false },
    })
    expect(await create({ writeKey: 'k', rateLimit: { callsPerSecond: 1 } })).toMatchObject({
      status: 412,
      body: {
        error: {
          code: 'version_mismatch',
          message: expect.stringMatching(/^There is a source "app" already/) as string,
        },
      },
    })
    const missing = await ask(running, 'PATCH', '/sources/x', {}, { 'If-Match': '*' })
    expect(missing.status).toBe(412)
    expect((await ask(running, 'PATCH', '/sources/x', {})).status).toBe(404)
  })

  test.each([
    ['If-Match', '12'],
    ['If-Match', '"a" "b"'],
    ['If-None-Match', '"12"'],
    ['X-Actor', 'ä'],
    ['X-Actor', 'x'.repeat(101)],
    ['X-Actor', "UTF-8''%C3"],
  ])('with %s: %s is refused', async (name, value) => {
    const running = await start(managedSettings())
    expect(await ask(running, 'PUT', '/sources/app', {}, { [name]: value })).toMatchObject({
      status: 400,
      body: { error: { code: 'invalid_parameter' } },
    })
  })

  test('of many clients at once loses none, and each sees its own', async () => {
    const running = await start(managedSettings())
    await ask(running, 'PUT', '/destinations/crm', {
      sources: [],
      webhooks: webhooks('https://a.example.com/'),
    })
    const names = Array.from({ length: 20 }, (_, i) => `s${i}`)
    const answers = await Promise.all(
      names.map((name) => ask(running, 'PUT', `/sources/${name}`, {})),
    )
    expect(answers.map(({ status }) => status)).toEqual(names.map(() => 201))
    const { body } = await ask(running, 'GET', '/sources?q=s&limit=1000')
    expect(body.items.map(({ name }) => name)).toEqual([...names].sort())
  })
})

describe('the list', () => {
  test('has pages in the order of names, and finds names and URLs', async () => {
    const file = destination([{ url: 'http://127.0.0.1:1/in-file' }], { name: 'm' })
    const running = await start(managedSettings({ destinations: [file] }))
    for (const name of ['z', 'a', 'k']) {
      const url = `https://${name}.example.com/`
      await ask(running, 'PUT', `/destinations/${name}`, { sources: [], webhooks: webhooks(url) })
    }
    const first = await ask(running, 'GET', '/destinations?limit=3')
    expect(first.body.items.map(({ name, origin }) => [name, origin])).toEqual([
      ['a', 'store'],
      ['k', 'store'],
      ['m', 'file'],
    ])
    expect(first.body).toMatchObject({ total: 4, next: 'm' })
    const second = await ask(running, 'GET', '/destinations?limit=3&after=m')
    expect(second.body).toMatchObject({ items: [{ name: 'z' }], total: 4, next: null })
    const found = await ask(running, 'GET', '/destinations?q=IN-FILE')
    expect(found.body).toMatchObject({ items: [{ name: 'm', version: null }], total: 1 })
    expect((await ask(running, 'GET', '/destinations?query=x')).status).toBe(400)
    const takers = await ask(running, 'GET', '/destinations?source=web')
    expect(takers.body).toMatchObject({ items: [{ name: 'm' }], total: 1, canChange: true })
    expect((await ask(running, 'GET', '/sources?source=web')).status).toBe(400)
    await ask(running, 'PUT', '/tenants/acme', {})
    await ask(running, 'PUT', '/sources/of-acme', { tenant: 'acme' })
    const owned = await ask(running, 'GET', '/sources?tenant=acme')
    expect(owned.body).toMatchObject({ items: [{ name: 'of-acme' }], total: 1 })
    expect((await ask(running, 'GET', '/destinations?tenant=acme')).body.total).toBe(0)
    expect((await ask(running, 'GET', '/tenants?tenant=acme')).status).toBe(400)
    const withoutKey = await start(settingsFor([]))
    expect((await ask(withoutKey, 'GET', '/sources')).body.canChange).toBe(false)
  })
})

describe('what is in the settings file', () => {
  test('is shown, and can not be changed', async () => {
    const running = await start(managedSettings())
    const { body, etag } = await ask(running, 'GET', '/sources/web')
    expect(body).toEqual({
      ...{ kind: 'source', name: 'web', origin: 'file', version: null },
      ...{ secrets: { writeKey: 1 }, settings: { name: 'web' } },
    })
    expect(etag).toBe(null)
    for (const [method, path] of [
      ['PUT', '/sources/web'],
      ['PATCH', '/sources/web'],
      ['DELETE', '/sources/web'],
      ['POST', '/sources/web/rotation'],
      ['DELETE', '/sources/web/rotation'],
    ] as const) {
      expect(
        await ask(running, method, path, method.startsWith('P') ? {} : undefined),
      ).toMatchObject({
        status: 409,
        body: { error: { code: 'in_settings_file' } },
      })
    }
  })

  test('may not have a name or a key that the store has, nor lose a source that the store needs', async () => {
    const settings = managedSettings()
    const running = await start(settings)
    await ask(running, 'PUT', '/sources/app', { writeKey: 'app-key' })
    const crm = { sources: ['web'], webhooks: webhooks('https://a.example.com/') }
    await ask(running, 'PUT', '/destinations/crm', crm)
    const web = { name: 'web', writeKey: KEY }
    const reload = (changes: Partial<Settings>) => running.reload({ ...settings, ...changes })
    await expect(reload({ sources: [web, { name: 'app', writeKey: 'x' }] })).rejects.toThrow(
      'sources[1].name: is the name of a source in the store too ("app").',
    )
    await expect(reload({ sources: [web, { name: 'new', writeKey: 'app-key' }] })).rejects.toThrow(
      'sources[1].writeKey: is the write key of the source "app" in the store too.',
    )
    await expect(reload({ sources: [{ name: 'new', writeKey: 'x' }] })).rejects.toThrow(
      'expected the source "web", which the destination "crm" in the store takes.',
    )
    await expect(reload({ settingsKeys: undefined })).rejects.toThrow('settingsKey: is missing')
    expect((await post(running, [track('m')], 'app-key')).status).toBe(200)
    await reload({ sources: [web, { name: 'new', writeKey: 'x' }] })
    expect((await post(running, [track('m')], 'x')).status).toBe(200)
    expect((await post(running, [track('m')], 'app-key')).status).toBe(200)
    await running.close()
    await expect(
      start({ ...settings, sources: [web, { name: 'app', writeKey: 'x' }] }),
    ).rejects.toThrow('the source "app": the settings file has a source of this name too.')
    await expect(
      start({ ...settings, sources: [web, { name: 'new', writeKey: 'app-key' }] }),
    ).rejects.toThrow(
      'the source "app": it has the write key of the source "new" in the settings file.',
    )
    await expect(start({ ...settings, sources: [{ ...web, name: 'new' }] })).rejects.toThrow(
      'the destination "crm": it takes the calls of the source "web", which is neither in the settings file nor in the store.',
    )
  })
})

describe('the settings key', () => {
  test('is required for changes', async () => {
    const running = await start(settingsFor([]))
    expect(await ask(running, 'PUT', '/sources/app', {})).toMatchObject({
      status: 409,
      body: { error: { code: 'no_settings_key' } },
    })
    expect((await ask(running, 'GET', '/sources')).body.items).toMatchObject([{ name: 'web' }])
  })

  test('opens the settings again after a restart, and a wrong one does not', async () => {
    const settings = managedSettings()
    const first = await start(settings)
    await ask(first, 'PUT', '/sources/app', { writeKey: 'app-key' })
    await first.close()
    await expect(start({ ...settings, settingsKeys: [OTHER_KEY] })).rejects.toThrow(
      'The store: the source "app": no key in "settingsKey" decrypts it.',
    )
    await expect(start({ ...settings, settingsKeys: undefined })).rejects.toThrow('settingsKey')
    const second = await start(settings)
    expect((await post(second, [track('m')], 'app-key')).status).toBe(200)
  })

  test('can be replaced: a new first key encrypts everything again', { tags: 'long' }, async () => {
    const settings = managedSettings()
    const first = await start(settings)
    for (let i = 0; i < 120; i++)
      await ask(first, 'PUT', `/sources/s${i}`, { writeKey: `key-${i}` })
    await first.close()
    const lines: string[] = []
    const log = {
      ...{ debug: () => undefined, warn: () => undefined, error: () => undefined },
      info: (fields: object, message: string) => lines.push(`${message} ${JSON.stringify(fields)}`),
    }
    const second = await start({ ...settings, settingsKeys: [OTHER_KEY, SETTINGS_KEY] }, log)
    await vi.waitUntil(
      () => lines.some((line) => /first settingsKey.*"records":120/.test(line)),
      10_000,
    )
    const etag = (await ask(second, 'GET', '/sources/s0')).etag
    await second.close()
    const third = await start({ ...settings, settingsKeys: [OTHER_KEY] })
    expect((await post(third, [track('m')], 'key-119')).status).toBe(200)
    expect((await ask(third, 'GET', '/sources/s0')).etag).toBe(etag)
    // The encryption is no change that somebody has made.
    const { body } = await ask(third, 'GET', '/audit?kind=source&name=s0')
    expect(body.entries.map(({ action }) => action)).toEqual(['create'])
  })
})

describe('a reload of the file', () => {
  test('uses what could not be used before: another process had the key, or had moved it to the store', async () => {
    const settings = managedSettings()
    const first = await start(settings)
    await ask(first, 'PUT', '/sources/app', { writeKey: 'app-key' })
    await first.close()
    const inFile = { ...settings, sources: [...settings.sources, { name: 'app', writeKey: 'k' }] }
    await expect(start(inFile)).rejects.toThrow('the source "app"')
    const managed = await Managed.open(inFile, Date.now)
    const store = await openStore(settings.store)
    const { records } = await store.records(0, 10)
    await store.close()
    expect(await managed.take(records, true)).toMatchObject([{ kind: 'source', name: 'app' }])
    expect(managed.ownerOf('app-key')).toBeUndefined()
    const { unusable, undo } = await managed.useFile(settings)
    expect(unusable).toEqual([])
    expect(managed.ownerOf('app-key')).toBe('app')
    undo()
    expect(managed.ownerOf('app-key')).toBeUndefined()
    const withoutKey = await Managed.open({ ...settings, settingsKeys: undefined }, Date.now)
    expect(await withoutKey.take(records, true)).toHaveLength(1)
    expect((await withoutKey.useFile(settings)).unusable).toEqual([])
    expect(withoutKey.ownerOf('app-key')).toBe('app')
  })

  test('with a new first key encrypts everything again, and one without the old key is refused until then', async () => {
    const settings = managedSettings()
    const lines: string[] = []
    const log = { ...silent, info: (_: object, message: string) => lines.push(message) }
    const running = await start(settings, log)
    await ask(running, 'PUT', '/sources/app', { writeKey: 'app-key' })
    await expect(running.reload({ ...settings, settingsKeys: [OTHER_KEY] })).rejects.toThrow(
      'settingsKey: lacks a key',
    )
    await running.reload({ ...settings, settingsKeys: [OTHER_KEY, SETTINGS_KEY] })
    await vi.waitUntil(() => lines.some((line) => line.includes('first settingsKey')), 60_000)
    await running.reload({ ...settings, settingsKeys: [OTHER_KEY] })
    await running.close()
    const next = await start({ ...settings, settingsKeys: [OTHER_KEY] })
    expect((await post(next, [track('m')], 'app-key')).status).toBe(200)
  })
})

test('a search does not find what is not shown: the query of a URL', async () => {
  const running = await start(managedSettings())
  await ask(running, 'PUT', '/sources/app', {})
  const created = await ask(running, 'PUT', '/destinations/acme', {
    sources: ['app'],
    webhooks: webhooks('https://acme.example.com/hook?token=abc'),
  })
  expect(created.status).toBe(201)
  const found = async (q: string) => (await ask(running, 'GET', `/destinations?q=${q}`)).body.total
  expect(await found('acme.example')).toBe(1)
  expect(await found(encodeURIComponent('token=a'))).toBe(0)
})

test(
  'no call is refused or lost and none is sent twice, while its source and its destination change',
  { tags: 'long' },
  async () => {
    const crm = await endpoint(204)
    const running = await start(managedSettings())
    await ask(running, 'PUT', '/sources/app', { writeKey: 'first' })
    const at = (i: number) =>
      webhooks(crm.url, { headers: { 'X-Version': `${i}` }, concurrency: 1 + (i % 7) })
    await ask(running, 'PUT', '/destinations/crm', { sources: ['app'], webhooks: at(0) })
    let isChanging = true
    const sent: string[] = []
    const statuses = new Set<number>()
    const sendCalls = async (client: number) => {
      for (let n = 0; isChanging; n++) {
        // Otherwise a busy machine would take minutes for what waits at the end.
        await crm.has(sent.length - 200)
        const ids = Array.from({ length: 5 }, (_, i) => `${client}-${n}-${i}`)
        const { status } = await post(
          running,
          ids.map((id) => track(id)),
          'first',
        )
        statuses.add(status)
        sent.push(...ids)
      }
    }
    const clients = [sendCalls(0), sendCalls(1), sendCalls(2)]
    for (let i = 1; i <= 14; i++) {
      const answers = await Promise.all([
        ask(running, 'PATCH', '/destinations/crm', { webhooks: at(i) }),
        ask(running, 'PATCH', '/sources/app', { rateLimit: { callsPerSecond: 100_000 + i } }),
        ask(running, 'PUT', `/destinations/other-${i % 3}`, {
          sources: ['app'],
          enabled: false,
          webhooks: webhooks(`https://e${i}.example.com/`),
        }),
        ask(
          running,
          i % 2 === 1 ? 'POST' : 'DELETE',
          `/sources/app/rotation${i % 2 === 1 ? '' : '?keep=old'}`,
        ),
      ])
      expect(answers.map(({ status }) => Math.floor(status / 100))).toEqual([2, 2, 2, 2])
    }
    isChanging = false
    await Promise.all(clients)
    expect([...statuses]).toEqual([200])
    await vi.waitUntil(() => crm.received.length >= sent.length, 60_000)
    await vi.waitUntil(async () => (await running.stats()).length === 0, 60_000)
    const received = crm.received.map(({ headers }) => headers['x-message-id'])
    expect(received.length).toBe(sent.length)
    expect(new Set(received)).toEqual(new Set(sent))
    expect(sent.length).toBeGreaterThan(100)
  },
)

test('the audit log says who changed what, without secrets', async () => {
  const running = await start(managedSettings())
  const by = { 'X-Actor': 'ann@example.com' }
  const crm = {
    sources: ['web'],
    sharedSecret: 'hush-secret',
    webhooks: webhooks('https://a.example.com/?key=hush-query', {
      headers: { 'X-T': 'hush-header' },
    }),
  }
  await ask(running, 'PUT', '/destinations/crm', crm, by)
  await ask(running, 'PATCH', '/destinations/crm', { enabled: false })
  await ask(running, 'PUT', '/sources/app', { writeKey: 'hush-key' })
  const zoe = { 'X-Actor': "UTF-8''Zo%C3%AB" }
  await ask(running, 'POST', '/destinations/crm/rotation', undefined, zoe)
  await ask(running, 'DELETE', '/destinations/crm/rotation')
  await ask(running, 'DELETE', '/destinations/crm')
  const { body, text } = await ask(running, 'GET', '/audit?kind=destination&name=crm')
  expect(body.entries.map(({ action, by }) => [action, by])).toEqual([
    ['delete', null],
    ['revoke', null],
    ['rotate', 'Zoë'],
    ['update', null],
    ['create', 'ann@example.com'],
  ])
  expect(body.entries[3]).toEqual({
    ...{ id: expect.any(Number) as number, at: expect.any(Number) as number },
    ...{ kind: 'destination', name: 'crm', action: 'update', by: null, from: '127.0.0.1' },
    changes: [{ path: 'enabled', from: true, to: false }],
  })
  expect(body.entries[2]?.changes).toEqual([{ path: 'sharedSecret[1]', to: '•••' }])
  expect(body.entries[4]?.changes).toEqual(
    expect.arrayContaining([
      { path: 'webhooks[0].url', to: 'https://a.example.com/?•••' },
      { path: 'webhooks[0].headers.X-T', to: '•••' },
      { path: 'sharedSecret[0]', to: '•••' },
    ]),
  )
  expect(text).not.toContain('hush')
  const all = await ask(running, 'GET', '/audit?limit=4')
  expect(all.text).not.toContain('hush')
  const rest = await ask(running, 'GET', `/audit?limit=4&before=${all.body.next}`)
  expect([...all.body.entries, ...rest.body.entries].map(({ name }) => name)).toEqual([
    ...['crm', 'crm', 'crm', 'app', 'crm', 'crm'],
  ])
  expect(rest.body.next).toBe(null)
  expect((await ask(running, 'GET', '/audit?name=crm')).status).toBe(400)
})

test('the routes need the admin token, and those that change need it always', async () => {
  const running = await start(managedSettings())
  for (const [method, path] of [
    ['GET', '/sources'],
    ['GET', '/destinations/crm'],
    ['GET', '/audit'],
    ['PUT', '/sources/app'],
    ['PATCH', '/sources/app'],
    ['DELETE', '/destinations/crm'],
    ['POST', '/sources/app/rotation'],
  ] as const) {
    const wrong = { Authorization: 'Bearer wrong-token-0123456789' }
    const body = method.startsWith('P') ? {} : undefined
    expect((await ask(running, method, path, body, wrong)).status).toBe(401)
  }
})
