// Tenants send random requests with the ids and names of others. A model knows what each may see.
import { expect, onTestFinished, test } from 'vitest'
import type { DeliveryList, PortalOverview, Replayed } from '../../../src/model/answers.js'
import type { Summary } from '../../../src/model/delivery.js'
import type { Destination } from '../../../src/settings/settings.js'
import { startEndpoint } from '../../endpoint.js'
import { SETTINGS_KEY } from '../../manage/api.js'
import { places, type Place } from '../../openapi/document.js'
import { ADMIN_TOKEN, post, settingsFor, start, track } from '../../run.js'
import { dice } from '../../simulation/chance.js'

const seed = Number(process.env['SEED'] ?? Math.floor(Math.random() * 1e9))
const REQUESTS = 300

/** Somebody with data of its own. `ann` and `ben` send requests, and nothing of the others may change. */
type Owner = 'ann' | 'ben' | 'cid' | 'operator'
const OWNERS: readonly Owner[] = ['ann', 'ben', 'cid', 'operator']

/** It is in everything that belongs to an owner: names, users, events, URLs, bodies, answers. */
const MARKS: Record<Owner, string> = {
  ann: 'mark-ann',
  ben: 'mark-ben',
  cid: 'mark-cid',
  operator: 'mark-operator',
}

interface Sent {
  method: string
  path: string
  body?: string
}

interface Got {
  status: number
  text: string
  body: unknown
}

test(`a tenant sees and changes nothing of others: SEED=${seed}`, { tags: 'long' }, async () => {
  const { between, chance, pick } = dice(seed)
  const endpoint = await startEndpoint([
    (response, { path }) => {
      const status = path.includes('refusing') ? 400 : path.includes('failing') ? 503 : 204
      response.writeHead(status, { 'X-Mark': path }).end(status === 204 ? '' : `no: ${path}`)
    },
  ])
  onTestFinished(() => endpoint[Symbol.asyncDispose]())

  const webhook = (owner: Owner, way: string) => ({
    ...{ url: `${endpoint.url}/${MARKS[owner]}/${way}?key=${MARKS[owner]}`, concurrency: 128 },
    headers: {},
  })
  const tenantOf = (owner: Owner) => (owner === 'operator' ? {} : { tenant: MARKS[owner] })
  const source = (owner: Owner) => ({
    ...{ name: `${MARKS[owner]}-app`, writeKey: `key-${owner}`, ...tenantOf(owner) },
  })
  const destination = (owner: Owner, way: string): Destination => ({
    ...{ name: `${MARKS[owner]}-${way}`, enabled: true, sharedSecret: `s3cret-${MARKS[owner]}` },
    ...tenantOf(owner),
    sources: owner === 'operator' ? OWNERS.map((one) => source(one).name) : [source(owner).name],
    webhooks: [webhook(owner, way)],
  })
  const settings = settingsFor(
    OWNERS.flatMap((owner) => ['refusing', 'good'].map((way) => destination(owner, way))),
    {
      settingsKeys: [SETTINGS_KEY],
      sources: OWNERS.map(source),
      tenants: [
        { name: MARKS.ann, portal: { editUrls: true } },
        { name: MARKS.ben, title: 'Ben', portal: { editUrls: false } },
        { name: MARKS.cid, portal: { editUrls: true } },
      ],
    },
  )
  const running = await start(settings)

  const send = async (token: string, { method, path, body }: Sent): Promise<Got> => {
    const response = await fetch(running.url + path, {
      method,
      headers: { Authorization: `Bearer ${token}` },
      ...(body !== undefined && { body }),
    })
    if (response.headers.get('content-type')?.startsWith('text/event-stream') === true) {
      await response.body?.cancel()
      return { status: response.status, text: '', body: {} }
    }
    const text = await response.text()
    const head = JSON.stringify([...response.headers])
    return { status: response.status, text: head + text, body: toJson(text) }
  }
  const admin = async <T>(path: string, method = 'GET', body?: object): Promise<T> => {
    const sent = { method, path: `/v1/admin${path}`, ...(body && { body: JSON.stringify(body) }) }
    const got = await send(ADMIN_TOKEN, sent)
    expect(got.status, got.text).toBeLessThan(300)
    return got.body as T
  }

  // One destination of each tenant is kept in the store, so that it can be changed.
  for (const owner of OWNERS.filter((one) => one !== 'operator')) {
    const { name, sharedSecret, ...rest } = destination(owner, 'failing')
    await admin(`/destinations/${name}`, 'PUT', { ...rest, sharedSecret })
  }
  const links = new Map<Owner, string>()
  for (const owner of ['ann', 'ben', 'cid'] as const) {
    const { token } = await admin<{ token: string }>(`/tenants/${MARKS[owner]}/link`, 'POST', {})
    links.set(owner, token)
  }
  const tokenOf = (owner: Owner) => links.get(owner) ?? ''

  const calls = (owner: Owner, from: number) =>
    Array.from({ length: 6 }, (_, i) =>
      // Some ids and users are those of others too.
      track(i % 2 === 0 ? `shared-${from + i}` : `${MARKS[owner]}-${from + i}`, {
        userId: i % 3 === 0 ? 'everybody' : `user-${MARKS[owner]}`,
        event: `Event ${MARKS[owner]}`,
        properties: { mark: MARKS[owner] },
      }),
    )
  const postAll = async (from: number) => {
    for (const owner of OWNERS) await post(running, calls(owner, from), `key-${owner}`)
  }
  const listen = async (owner: Owner) => {
    const controller = new AbortController()
    const response = await fetch(`${running.url}/v1/portal/stream`, {
      headers: { Authorization: `Bearer ${tokenOf(owner)}` },
      signal: controller.signal,
    })
    let text = ''
    const ended = (async () => {
      const pieces = response.body?.pipeThrough(new TextDecoderStream()) ?? []
      for await (const piece of pieces as AsyncIterable<string>) text += piece
    })().catch(() => undefined)
    return {
      has: (part: RegExp) => expect.poll(() => text).toMatch(part),
      end: async () => {
        controller.abort()
        await ended
        return text
      },
    }
  }
  const listeners = new Map([
    ['ann', await listen('ann')],
    ['ben', await listen('ben')],
  ] as const)
  await postAll(0)
  await postAll(100)

  const all = async (): Promise<Summary[]> => {
    const found: Summary[] = []
    let before = ''
    for (;;) {
      const page = await admin<DeliveryList>(`/deliveries?limit=200${before}`)
      found.push(...page.deliveries)
      if (page.next === null) return found
      before = `&before=${page.next}`
    }
  }
  const ownerOf = (name: string): Owner =>
    OWNERS.find((owner) => name.startsWith(MARKS[owner])) ?? 'operator'
  // The breakers of failing endpoints hold back messages.
  const untried = async () =>
    (await all()).filter((one) => one.lastCode === null && !one.destination.endsWith('failing'))
  await expect.poll(untried).toEqual([])
  const known = await all()
  expect(known.length).toBeGreaterThan(150)
  const ownOf = (owner: Owner) => known.filter((one) => ownerOf(one.destination) === owner)

  for (const owner of ['ann', 'ben', 'cid'] as const) {
    const ask = async () => {
      const got = await send(tokenOf(owner), { method: 'GET', path: '/v1/portal/overview' })
      return got.body as PortalOverview
    }
    // What is tried again meanwhile counts differently from one moment to the next.
    await expect
      .poll(async () => {
        const { totals } = await ask()
        const own = (await all()).filter((one) => ownerOf(one.destination) === owner)
        const count = (wanted: string) => own.filter(({ state }) => state === wanted).length
        return [totals.destinations, totals.dead - count('dead'), totals.delivered - count('done')]
      })
      .toEqual([3, 0, 0])
    const { rows, sources } = await ask()
    expect(rows.map(({ name }) => name).sort()).toEqual(
      ['failing', 'good', 'refusing'].map((way) => `${MARKS[owner]}-${way}`),
    )
    expect(sources).toEqual([{ name: `${MARKS[owner]}-app`, accepted: 12, rejected: 0 }])
  }

  const lastId = Math.max(...known.map(({ id }) => id))
  /** What must stay as it is: all of `cid`, and of the operator. */
  const untouched = async () => {
    const found = (await all()).filter(
      (one) => one.id <= lastId && ['cid', 'operator'].includes(ownerOf(one.destination)),
    )
    const shown = [`${MARKS.cid}-failing`, `${MARKS.cid}-good`].map((name) =>
      admin(`/destinations/${name}`),
    )
    const { entries } = await admin<{ entries: { name: string }[] }>('/audit?limit=1000')
    return {
      // A message that waits is tried again meanwhile.
      deliveries: found.map((one) =>
        one.dueAt === null ? one : { id: one.id, destination: one.destination },
      ),
      settings: await Promise.all(shown),
      audit: entries.filter(({ name }) => !['ann', 'ben'].includes(ownerOf(name))),
    }
  }
  const before = await untouched()

  const guarded = places.filter(({ operation }) =>
    operation.security.some((one) => 'AdminToken' in one || 'PortalToken' in one),
  )
  const portal = guarded.filter(({ path }) => path.startsWith('/v1/portal'))
  const names = [...new Set(known.map((one) => one.destination))]
  const changeable = names.filter((name) => name.endsWith('failing'))
  const anyFilter = (): Record<string, string> => {
    const one = pick(known)
    const fields = {
      destination: one.destination,
      source: one.source,
      messageId: one.messageId,
      user: one.user,
      event: one.event,
      type: one.type,
    }
    return Object.fromEntries(Object.entries(fields).filter(() => chance(0.3)))
  }

  for (let i = 0; i < REQUESTS; i++) {
    const owner = pick(['ann', 'ben'] as const)
    const place = chance(0.2) ? pick(guarded) : pick(portal)
    const one = pick(known)
    const name = chance(0.3) ? pick(changeable) : pick(names)
    const filter = anyFilter()
    const sent = requestTo(place, { id: one.id, name, filter })
    const got = await send(tokenOf(owner), sent)
    const which = `${i}: ${owner} ${sent.method} ${sent.path} ${sent.body ?? ''} → ${got.status} ${got.text}`
    judge(owner, place, { one, name, filter }, got, which)
    expect(foreignMarks(owner, sent, got.text), which).toEqual([])
    if (i === REQUESTS / 2) await postAll(200)
  }
  // Not every seed changes something, and the audit log must have something to tell.
  const name = `${MARKS.ann}-failing`
  const body = JSON.stringify({ webhooks: [{ url: `${endpoint.url}/${MARKS.ann}/good` }] })
  const sent = { method: 'PATCH', path: `/v1/portal/destinations/${name}`, body }
  const changed = await send(tokenOf('ann'), sent)
  expect(changed.status, changed.text).toBe(200)

  /** A request to a route, with what may be of others. */
  function requestTo(
    { method, path }: Place,
    { id, name, filter }: { id: number; name: string; filter: Record<string, string> },
  ): Sent {
    const to = path
      .replace('{name}', name)
      .replace('{id}', String(id))
      .replace('{messageId}', encodeURIComponent(filter['messageId'] ?? 'shared-0'))
    const query = new URLSearchParams(
      path.endsWith('/deliveries')
        ? { ...filter, limit: '200' }
        : path.endsWith('/messages')
          ? { messageId: filter['messageId'] ?? 'shared-0' }
          : path.endsWith('/dead')
            ? pick([{ destination: name }, {}])
            : path.endsWith('/destination')
              ? { name }
              : {},
    ).toString()
    const body = path.endsWith('/replay')
      ? pick([
          { ids: [id, between(1, 300)] },
          { filter: { destination: name, ...filter } },
          { all: true },
        ])
      : path.endsWith('/test')
        ? { types: ['track'] }
        : method === 'PATCH'
          ? { webhooks: [{ url: `${endpoint.url}/${MARKS.ann}/good?${id}` }] }
          : {}
    const replay = path.endsWith('/replay') ? { dryRun: chance(0.5) } : {}
    // A replay that finds a message by its id has no filter for it.
    if ('filter' in body) delete (body.filter as Record<string, string>)['messageId']
    return {
      method,
      path: query === '' ? to : `${to}?${query}`,
      ...(method !== 'GET' && { body: JSON.stringify({ ...body, ...replay }) }),
    }
  }

  function judge(
    owner: Owner,
    place: Place,
    given: { one: Summary; name: string; filter: Record<string, string> },
    { status, body }: Got,
    which: string,
  ): void {
    const { one, name, filter } = given
    const isOwn = ownerOf(name) === owner
    const route = `${place.method} ${place.path.replace('/v1/portal', '')}`
    if (!place.path.startsWith('/v1/portal')) {
      expect(status, which).toBe(403)
      return
    }
    const own = ownOf(owner)
    const isStored = name.endsWith('failing')
    switch (route) {
      case 'GET /deliveries/{id}':
        expect(status, which).toBe(ownerOf(one.destination) === owner ? 200 : 404)
        break
      case 'GET /messages': {
        const messageId = filter['messageId'] ?? 'shared-0'
        const found = own.filter((each) => each.messageId === messageId).map(({ id }) => id)
        expect(status, which).toBe(found.length > 0 ? 200 : 404)
        const { deliveries = [] } = body as Partial<DeliveryList>
        expect(deliveries.map(({ id }) => id).sort(), which).toEqual(found.sort())
        break
      }
      case 'GET /deliveries': {
        const { deliveries } = body as DeliveryList
        const wanted = own.filter((each) =>
          Object.entries(filter).every(([field, value]) => each[field as keyof Summary] === value),
        )
        const ids = new Set(known.map(({ id }) => id))
        const found = deliveries.filter(({ id }) => ids.has(id))
        expect(
          found.map(({ id }) => id),
          which,
        ).toEqual(wanted.map(({ id }) => id))
        break
      }
      case 'GET /destination':
      case 'GET /destinations/{name}':
      case 'POST /destinations/{name}/test':
        expect(status, which).toBe(isOwn ? 200 : 404)
        break
      case 'PATCH /destinations/{name}':
        expect(status, which).toBe(owner === 'ben' ? 403 : !isOwn ? 404 : isStored ? 200 : 409)
        break
      case 'POST /destinations/{name}/rotation':
      case 'DELETE /destinations/{name}/rotation':
        // There may be two secrets already, or only one.
        if (!isOwn) expect(status, which).toBe(404)
        else expect(isStored ? [200, 409] : [409], which).toContain(status)
        break
      case 'POST /replay': {
        expect(status, which).toBe(200)
        const { byDestination, kept } = body as Replayed
        const owners = [...byDestination, ...kept].map((each) => ownerOf(each.name))
        expect(
          owners.filter((each) => each !== owner),
          which,
        ).toEqual([])
        break
      }
      default:
        expect(status, which).toBe(200)
    }
  }

  /** The marks of others in an answer, apart from what the request itself has said. */
  function foreignMarks(owner: Owner, { path, body = '' }: Sent, text: string): string[] {
    const said = [
      ...decodeURIComponent(path).matchAll(/mark-[\w-]+/g),
      ...body.matchAll(/mark-[\w-]+/g),
    ]
    const unsaid = said.reduce((rest, [mark]) => rest.replaceAll(mark, ''), text)
    return OWNERS.filter((other) => other !== owner && unsaid.includes(MARKS[other]))
  }

  expect(await untouched()).toEqual(before)
  for (const [owner, listener] of listeners) {
    // Of more than 50 events in a second, the listener is told the number only.
    await listener.has(new RegExp(`"messageId":"${MARKS[owner]}-203"|event: skipped`))
    const text = await listener.end()
    expect(text).toContain('event: attempt')
    expect(foreignMarks(owner, { method: '', path: '' }, text)).toEqual([])
  }
  const { entries } = await admin<{ entries: { by: string; name: string; action: string }[] }>(
    '/audit?limit=1000',
  )
  const changes = entries.filter(({ action }) => action !== 'create')
  expect(changes.length).toBeGreaterThan(0)
  for (const { by, name } of changes) expect(by).toBe(`tenant ${MARKS[ownerOf(name)]}`)
})

function toJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}
