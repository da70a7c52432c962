import { describe, expect, test } from 'vitest'
import type { RunningDestination } from '../../src/destination.js'
import type { DeliveryList, FilterPreview } from '../../src/model/answers.js'
import { ADMIN_TOKEN, destination, endpoint, post, settingsFor, start, track } from '../run.js'

const headers = { authorization: `Bearer ${ADMIN_TOKEN}` }

async function preview({ adminUrl }: RunningDestination, body: object): Promise<FilterPreview> {
  const response = await fetch(`${adminUrl}/v1/admin/filters/preview`, {
    method: 'POST',
    headers,
    body: JSON.stringify({ destination: 'crm', ...body }),
  })
  return (await response.json()) as FilterPreview
}

const sources = ['web', 'app', 'other'].map((name) => ({ name, writeKey: `${name}-key` }))

/** A destination of two sources with filters, and one of all sources without. */
async function running() {
  const [crm, lake] = [await endpoint(), await endpoint()]
  const settings = settingsFor(
    [
      destination([crm], {
        sources: ['web', 'app'],
        filters: [
          { events: { allow: ['Order *'] } },
          { sources: ['app'], where: { 'properties.total': { $gte: 100 } } },
        ],
      }),
      destination([lake], { name: 'lake', sources: ['web', 'app', 'other'] }),
    ],
    { sources },
  )
  return { crm, lake, settings, one: await start(settings) }
}

describe('a preview', () => {
  test('of a call says for each source whether it passes the filters of the destination', async () => {
    const { one, crm, lake } = await running()
    const call = { ...track('m1', { event: 'Order Completed' }), properties: { total: 42 } }
    const shown = { messageId: 'm1', type: 'track', event: 'Order Completed', user: 'u1' }
    expect(await preview(one, { call })).toEqual({
      ...{ passed: 1, stopped: 1, withoutBody: 0, isComplete: true },
      results: [
        { ...shown, source: 'web', passes: true, rule: null, reason: null },
        {
          ...{ ...shown, source: 'app', passes: false, rule: 'where' },
          reason: 'filtered: properties.total does not match (filters[1].where)',
        },
      ],
    })
    const filters = [{ types: ['page'] }]
    expect((await preview(one, { call, filters })).results).toMatchObject([
      { rule: 'type' },
      { rule: 'type' },
    ])
    expect(await preview(one, { call, filters: [] })).toMatchObject({ passed: 2, stopped: 0 })
    // Nothing was sent or stored.
    expect([crm.received, lake.received]).toEqual([[], []])
    const stored = await fetch(`${one.adminUrl}/v1/admin/deliveries`, { headers })
    expect(((await stored.json()) as DeliveryList).deliveries).toEqual([])
  })

  test('of the latest calls tries those of its sources, each once, whichever destination got them', async () => {
    const { one, lake } = await running()
    const everything = [
      { type: 'identify', userId: 'u1', traits: { plan: 'pro' } },
      { type: 'page', userId: 'u1', name: 'Home', properties: { path: '/' } },
      { type: 'screen', anonymousId: 'a1', name: 'Start' },
      { type: 'group', userId: 'u1', groupId: 'g1' },
      { type: 'alias', userId: 'u1', previousId: 'a1' },
      track('m6', { event: 'Signed Up' }),
    ].map((call, i) => ({ ...call, messageId: `m${i + 1}` }))
    await post(one, everything, 'web-key')
    await post(one, [track('n1', { event: 'Order Completed' })], 'app-key')
    await post(one, [track('x1')], 'other-key')
    await fetch(`${one.adminUrl}/v1/deletions`, {
      method: 'POST',
      headers,
      body: JSON.stringify({ userId: 'somebody' }),
    })
    await lake.has(8)

    const all = await preview(one, { latest: 200 })
    expect(all).toMatchObject({ passed: 5, stopped: 2, withoutBody: 0, isComplete: true })
    expect(all.results.map(({ messageId, source }) => `${source} ${messageId}`).sort()).toEqual([
      'app n1',
      ...everything.map(({ messageId }) => `web ${messageId}`),
    ])
    const of = (id: string) => all.results.find(({ messageId }) => messageId === id)
    expect(of('m6')).toMatchObject({ passes: false, rule: 'allow' })
    expect(of('n1')).toMatchObject({ passes: false, rule: 'where' })
    expect(of('m3')).toMatchObject({ type: 'screen', event: 'Start', user: 'a1' })

    const filters = [
      {
        where: {
          $or: [
            { 'traits.plan': 'pro' },
            { 'properties.path': '/' },
            { previousId: 'a1' },
            { groupId: 'g1' },
          ],
        },
      },
    ]
    const tried = await preview(one, { filters, latest: 200 })
    const passing = tried.results.filter(({ passes }) => passes)
    expect(passing.map(({ messageId }) => messageId).sort()).toEqual(['m1', 'm2', 'm4', 'm5'])

    const latest = await preview(one, { latest: 2 })
    expect(latest.results.map(({ messageId }) => messageId)).toContain('n1')
    expect(latest).toMatchObject({ isComplete: true, passed: expect.any(Number) as number })
    expect(latest.results).toHaveLength(2)
  })

  test('counts the calls of which only the decision is stored', async () => {
    const crm = await endpoint()
    const filters = [{ events: { allow: ['Order *'] } }]
    const one = await start(settingsFor([destination([crm], { filters })]))
    await post(one, [track('m1', { event: 'Order Completed' }), track('m2'), track('m3')])
    expect(await preview(one, { filters: [{ types: ['track'] }], latest: 50 })).toMatchObject({
      ...{ passed: 1, stopped: 0, withoutBody: 2, isComplete: true },
      results: [{ messageId: 'm1' }],
    })
  })

  test('of a destination without sources is empty', async () => {
    const crm = await endpoint()
    const one = await start(settingsFor([destination([crm], { sources: [] })]))
    const nothing = { passed: 0, stopped: 0, results: [], withoutBody: 0, isComplete: true }
    expect(await preview(one, { latest: 5 })).toEqual(nothing)
    expect(await preview(one, { call: track('m1') })).toEqual(nothing)
  })

  test('of the sources of a destination that is about to be created needs no destination', async () => {
    const one = await start(settingsFor([destination([await endpoint()])]))
    await post(one, [track('m1'), track('m2', { event: 'Order Viewed' })])
    const filters = [{ events: { deny: ['Order *'] } }]
    const trial = { destination: undefined, sources: ['web'], latest: 50 }
    expect(await preview(one, { ...trial, filters })).toMatchObject({ passed: 1, stopped: 1 })
    expect(await preview(one, trial)).toMatchObject({ passed: 2, stopped: 0 })
    expect(await preview(one, { ...trial, sources: ['app'] })).toMatchObject({ passed: 0 })
    expect(
      await preview(one, { ...trial, filters: [{ sources: ['app'], types: ['page'] }] }),
    ).toMatchObject({ error: { problems: [{ path: 'filters[0].sources[0]' }] } })
  })

  test('names every problem of the filters, as the check of the settings does', async () => {
    const { one } = await running()
    const filters = [{ types: ['trak'] }, { where: { 'propertys.a': 1 }, sources: ['other'] }]
    expect(await preview(one, { filters, latest: 1 })).toEqual({
      error: {
        code: 'invalid_filters',
        message: `The filters have 3 mistakes: filters[0].types[0]: expected one of identify, track, page, screen, group, alias, got "trak". Did you mean track?`,
        problems: [
          {
            path: 'filters[0].types[0]',
            message:
              'expected one of identify, track, page, screen, group, alias, got "trak". Did you mean track?',
          },
          {
            path: 'filters[1].where["propertys.a"]',
            message: 'there is no such field. Did you mean properties.a?',
          },
          {
            path: 'filters[1].sources[0]',
            message: 'expected one of the sources of the destination ("web", "app"), got "other".',
          },
        ],
      },
    })
  })

  test('needs the token', async () => {
    const { one } = await running()
    const response = await fetch(`${one.adminUrl}/v1/admin/filters/preview`, {
      method: 'POST',
      body: JSON.stringify({ destination: 'crm', latest: 1 }),
    })
    expect(response.status).toBe(401)
  })
})
