// Two processes of one PostgreSQL store: what one deletes, the other must not send.
import { afterAll, expect, test } from 'vitest'
import { endpoint, KEY, post, settingsFor, start, track } from '../run.js'
import { startServer } from '../store/postgres/server.js'
import { ask, SETTINGS_KEY } from './api.js'

const ROUNDS = process.env['SLOW'] ? 20 : 4
const CALLS = 200
/** So many that a process needs a moment to use a change of its settings. */
const OTHERS = 1_000

const cleanUps: (() => unknown)[] = []
afterAll(async () => {
  for (const cleanUp of cleanUps.reverse()) await cleanUp()
})

test(
  'a destination that is paused and deleted with its messages gets none of them',
  { timeout: 900_000 },
  async () => {
    const server = await startServer()
    cleanUps.push(() => server.dispose())
    const store = await server.database()
    const serve = () =>
      start(
        settingsFor([], { store, settingsKeys: [SETTINGS_KEY], sources: [] }),
        undefined,
        (one) => cleanUps.push(one),
      )
    const asked = await serve()
    const other = await serve()
    const receiver = await endpoint(204)
    const webhooks = [{ url: receiver.url }]
    const named = (name: string, source: string) => ({ name, sources: [source], webhooks })
    const settings = {
      sources: ['web', 'idle'].map((name) => ({
        name,
        writeKey: name === 'web' ? KEY : 'idle-key',
      })),
      destinations: Array.from({ length: OTHERS }, (_, i) => named(`other-${i}`, 'idle')),
    }
    expect(await ask(asked, 'POST', '/settings', { settings })).toMatchObject({ status: 200 })
    const isThere = async (name: string) =>
      (await ask(other, 'GET', `/destinations/${name}`)).status
    for (let round = 0; round < ROUNDS; round++) {
      const name = `crm-${round}`
      const path = `/destinations/${name}`
      await ask(asked, 'PUT', path, { sources: ['web'], webhooks })
      await ask(asked, 'POST', `${path}/pause`, { reason: 'the wrong endpoint' })
      await expect.poll(() => isThere(name)).toBe(200)
      await expect
        .poll(async () => JSON.stringify(await ask(other, 'GET', `/destination?name=${name}`)))
        .toContain('the wrong endpoint')
      const calls = Array.from({ length: CALLS }, (_, i) => track(`${round}-${i}`))
      expect(await post(asked, calls)).toMatchObject({ status: 200 })
      const { body } = await ask(asked, 'DELETE', `${path}?waiting=discard`)
      expect(body).toEqual({ discarded: CALLS, waiting: 0 })
      await expect.poll(() => isThere(name)).toBe(404)
      expect(receiver.received).toEqual([])
    }
  },
)
