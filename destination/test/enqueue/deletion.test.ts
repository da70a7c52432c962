import { readFileSync, readdirSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, expect, test } from 'vitest'
import type { RunningDestination } from '../../src/destination.js'
import { createDeleteUser } from '../../src/enqueue/deletion.js'
import { openStore } from '../../src/store/open.js'
import { newDelivery } from '../store/contract.js'
import { ADMIN_TOKEN, destination, endpoint, post, settingsFor, start, track } from '../run.js'

async function deleteUser({ adminUrl }: RunningDestination, body: unknown, token = ADMIN_TOKEN) {
  const response = await fetch(`${adminUrl}/v1/deletions`, {
    method: 'POST',
    headers: token === '' ? {} : { Authorization: `Bearer ${token}` },
    body: JSON.stringify(body),
  })
  return [response.status, (await response.json()) as unknown]
}

const sources = ['web', 'app', 'other'].map((name) => ({
  name,
  writeKey: name === 'web' ? 'web-key' : `${name}-key`,
}))

describe('a deletion', () => {
  test('is sent for each source that has the destination enabled, and to no other', async () => {
    const [crm, off] = [await endpoint(), await endpoint()]
    const running = await start(
      settingsFor(
        [
          destination([crm], { sources: ['web', 'app'] }),
          destination([off], { name: 'off', sources: ['other'], enabled: false }),
        ],
        { sources },
      ),
    )
    expect(await deleteUser(running, { userId: 'u1' })).toEqual([
      200,
      { success: true, userId: 'u1', sent: 2, purged: 0 },
    ])
    await crm.has(2)
    await running.close()
    expect(off.received).toEqual([])
    for (const { body, headers } of crm.received) {
      expect(body).toMatch(/^\{"type":"delete","userId":"u1","timestamp":"[\d-]+T[\d:.]+Z"\}$/)
      expect(headers['x-signature']).toMatch(/^[0-9a-f]{40}$/)
    }
    expect(new Set(crm.received.map(({ headers }) => headers['x-message-id'])).size).toBe(2)
  })

  test('is not sent to a destination that is disabled, and is when it is asked for again', async () => {
    const crm = await endpoint()
    const settings = settingsFor([destination([crm], { enabled: false })])
    const running = await start(settings)
    const ask = () => deleteUser(running, { userId: 'u1' })
    expect(await ask()).toMatchObject([200, { sent: 0 }])
    await running.reload({ ...settings, destinations: [destination([crm])] })
    expect(await ask()).toMatchObject([200, { sent: 1 }])
    await crm.has(1)
    await running.close()
    expect(crm.received.map(({ event }) => event['type'])).toEqual(['delete'])
  })

  test('takes an anonymous id as the id of who had no other', async () => {
    const crm = await endpoint()
    const running = await start(settingsFor([destination([crm])]))
    await post(running, [
      track('before', { userId: undefined, anonymousId: 'visitor' }),
      track('known', { anonymousId: 'visitor' }),
    ])
    await crm.has(2)
    await expect.poll(() => running.stats()).toEqual([])
    expect(await deleteUser(running, { userId: 'visitor' })).toMatchObject([200, { purged: 1 }])
  })

  test('purges what is stored of the user: what is done, what waits, and the log', async () => {
    const [crm, down] = [await endpoint(204), await endpoint(503)]
    const settings = settingsFor([
      destination([crm]),
      destination([down], { name: 'down', sources: ['web'] }),
    ])
    const running = await start(settings)
    const secret = { properties: { note: 'hush-hush' } }
    await post(running, [
      track('m1', { userId: 'gone', ...secret }),
      track('m2', { userId: 'stays' }),
    ])
    await Promise.all([crm.has(2), down.has(2)])
    await expect.poll(() => running.stats()).toMatchObject([{ destination: 'down', backlog: 2 }])
    expect(await deleteUser(running, { userId: 'gone' })).toMatchObject([
      200,
      { sent: 2, purged: 2 },
    ])
    await expect.poll(() => crm.received.map(({ event }) => event['type'])).toContain('delete')
    await running.close()

    const store = await openStore(settings.store)
    expect(await store.trace('m1')).toEqual([])
    expect(await store.trace('m2')).toHaveLength(2)
    expect(await store.hasUser('gone')).toBe(false)
    await store.close()
    const folder = dirname((settings.store as string).slice('sqlite:'.length))
    for (const file of readdirSync(folder)) {
      expect(readFileSync(join(folder, file)).includes('hush-hush'), file).toBe(false)
    }
  })

  test('that is asked for again is sent once, until there is something of the user again', async () => {
    const crm = await endpoint()
    const running = await start(settingsFor([destination([crm])]))
    const ask = () => deleteUser(running, { userId: 'u1' })
    expect(await ask()).toMatchObject([200, { sent: 1 }])
    expect(await ask()).toMatchObject([200, { sent: 0, purged: 0 }])
    await post(running, [track('back')])
    await crm.has(2)
    expect(await ask()).toMatchObject([200, { sent: 1, purged: 1 }])
    expect(await ask()).toMatchObject([200, { sent: 0, purged: 0 }])
    await crm.has(3)
    await running.close()
    expect(crm.received.map(({ event }) => event['type'])).toEqual(['delete', 'track', 'delete'])
  })

  test('that is asked for again is sent to who has something again, while others are created', async () => {
    const store = await openStore(settingsFor([]).store)
    const named = (...names: string[]) => ({
      sources,
      destinations: names.map((name) => destination([], { name })),
    })
    let settings = named('a', 'b')
    const sent: string[] = []
    const deleteUser = createDeleteUser({
      enqueue: async (deliveries) => {
        const ids = await store.put(
          deliveries.map((one) => ({ ...newDelivery(), ...one, state: 'fresh' as const })),
        )
        const isNew = ids.map((id) => id !== undefined)
        sent.push(...deliveries.filter((_, i) => isNew[i]).map((one) => one.destination))
        return isNew
      },
      store: {
        hasUser: (userId) => {
          settings = named('x', 'y', 'a', 'b', 'new')
          return store.hasUser(userId)
        },
        purgeUser: (userId, from) => store.purgeUser(userId, from),
      },
      settings: () => settings,
      now: Date.now,
    })
    await deleteUser('u1')
    await store.put([newDelivery({ user: 'u1', destination: 'a' })])
    settings = named('a', 'b', 'new')
    sent.length = 0
    expect(await deleteUser('u1')).toEqual({ sent: 3, purged: 1 })
    expect(sent.sort()).toEqual(['a', 'b', 'new'])
    await store.close()
  })

  test('that is asked for several times at once is sent once', async () => {
    const crm = await endpoint()
    const running = await start(settingsFor([destination([crm])]))
    const ask = () => deleteUser(running, { userId: 'u1' })
    await ask()
    await post(running, [track('back')])
    await crm.has(2)
    const answers = await Promise.all([ask(), ask(), ask()])
    const counts = answers.map(([, answer]) => (answer as { sent: number }).sent)
    expect(counts.sort()).toEqual([0, 0, 1])
    await running.close()
    expect(crm.received.map(({ event }) => event['type'])).toEqual(['delete', 'track', 'delete'])
  })

  test('is sent even if a write key has been used to send a call with its message id first', async () => {
    const known = await endpoint()
    await deleteUser(await start(settingsFor([destination([known])])), { userId: 'u1' })
    await known.has(1)
    const id = String(known.received[0]?.headers['x-message-id'])

    const crm = await endpoint()
    const running = await start(settingsFor([destination([crm])]))
    const refused = await post(running, [track(id, { userId: 'attacker' })])
    expect(await refused.json()).toMatchObject({ code: 'all_rejected' })
    expect(await deleteUser(running, { userId: 'u1' })).toMatchObject([200, { sent: 1 }])
    await crm.has(1)
    expect(crm.received[0]?.headers['x-message-id']).toBe(id)
  })

  test('takes the user out of the audiences', async () => {
    const crm = await endpoint()
    const running = await start(settingsFor([destination([crm])]))
    const list = async () => {
      const response = await fetch(`${running.adminUrl}/v1/audiences/vip?count=2`, {
        method: 'PUT',
        headers: { Authorization: `Bearer ${ADMIN_TOKEN}` },
        body: '["u1","u2"]',
      })
      return (await response.json()) as unknown
    }
    await list()
    await crm.has(2)
    // The membership and its message.
    await expect.poll(() => running.stats()).toEqual([])
    expect(await deleteUser(running, { userId: 'u1' })).toMatchObject([200, { purged: 2 }])
    expect(await list()).toMatchObject({ joined: 1, left: 0 })
  })

  test('calls back what waits for its turn at a busy endpoint', async () => {
    const fast = await endpoint()
    const held: (() => void)[] = []
    const busy = await endpoint((response) => held.push(() => response.writeHead(204).end()))
    const webhooks = [fast, busy].map(({ url }, i) => ({
      ...{ url, headers: {} },
      concurrency: i === 0 ? 128 : 2,
    }))
    const running = await start(settingsFor([destination([], { webhooks })]))
    const calls = (count: number, userId: string) =>
      Array.from({ length: count }, (_, i) => track(`${userId}-${i}`, { userId }))
    await post(running, [...calls(10, 'gone'), ...calls(3, 'stays')])
    await fast.has(13)
    await busy.has(2)
    expect(await deleteUser(running, { userId: 'gone' })).toMatchObject([200, { purged: 10 }])
    busy.answer(204)
    for (const answer of held) answer()
    await expect.poll(() => running.stats()).toEqual([])
    await running.close()
    const users = busy.received.map(({ event }) => [event['type'], event['userId']].join(' '))
    expect(users.slice(0, 5)).toEqual([
      ...['track gone', 'track gone'],
      ...['track stays', 'track stays', 'track stays'],
    ])
    expect(users.slice(5)).not.toContain('track gone')
  })

  test('has no request begin after it, with another secret or by newer settings', async () => {
    const held: (() => void)[] = []
    const slow = await endpoint((response) => held.push(() => response.writeHead(401).end()))
    const rotating = destination([slow], { sharedSecret: 'old', otherSecret: 'new' })
    const settings = settingsFor([rotating])
    const running = await start(settings)
    for (const isReloaded of [false, true]) {
      const calls = [track(`gone-${isReloaded}`, { userId: 'gone' }), track(`stays-${isReloaded}`)]
      await post(running, calls)
      await expect.poll(() => held.length).toBe(2)
      expect(await deleteUser(running, { userId: 'gone' })).toMatchObject([200, { sent: 1 }])
      if (isReloaded) {
        const rotated = { ...rotating, sharedSecret: 'newest', otherSecret: undefined }
        await running.reload({ ...settings, destinations: [rotated] })
      }
      slow.answer(204)
      for (const answer of held.splice(0)) answer()
      await expect.poll(() => running.stats()).toEqual([])
      slow.answer((response) => held.push(() => response.writeHead(401).end()))
    }
    await running.close()
    const ids = slow.received.map(({ headers }) => String(headers['x-message-id']))
    const countOf = (name: string) => ids.filter((id) => id.startsWith(name)).length
    expect(['gone-f', 'gone-t', 'stays-f', 'stays-t'].map(countOf)).toEqual([1, 1, 2, 2])
  })

  test.each([
    [{}],
    [{ userId: '' }],
    [{ userId: 'a\0' }],
    [{ userId: null }],
    [{ userId: 1.5 }],
    [{ userId: ['a'] }],
  ])('of %j is refused', async (body) => {
    const running = await start(settingsFor([]))
    expect(await deleteUser(running, body)).toMatchObject([400, { code: 'invalid_user' }])
  })

  test('of more than a user is refused, and deletes nothing', async () => {
    const crm = await endpoint()
    const running = await start(settingsFor([destination([crm])]))
    expect(await deleteUser(running, { userId: 'u1', anonymousId: 'visitor' })).toMatchObject([
      400,
      {
        code: 'invalid_parameter',
        message: 'Unknown parameter "anonymousId". Known parameters: userId.',
      },
    ])
    expect(await running.stats()).toEqual([])
  })

  test('is shut without the token', async () => {
    const running = await start(settingsFor([]))
    expect(await deleteUser(running, { userId: 'u' }, '')).toMatchObject([
      401,
      { code: 'no_admin_token' },
    ])
    expect(await deleteUser(running, { userId: 'u' }, 'wrong')).toMatchObject([
      401,
      { code: 'wrong_admin_token' },
    ])
  })
})
