// A move whose process is killed at each of its steps: nothing is lost, nothing is sent twice, and the next move ends it.
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { afterAll, expect, inject, test } from 'vitest'
import { openStore } from '../../../src/store/open.js'
import { serverOf } from '../../../src/store/server-ids.js'
import { shareOf, spread } from '../../../src/store/shares.js'
import type { StoreServer } from '../../../src/store/kind.js'
import type { Servers } from '../../../src/store/servers.js'
import type { Store } from '../../../src/store/store.js'
import { newDelivery, settlement } from '../contract.js'
import { startServer } from '../postgres/server.js'

const servers = await Promise.all([0, 1].map(() => startServer({ fsync: 'off' })))
afterAll(() => Promise.all(servers.map((server) => server.dispose())))

const MOVER = fileURLToPath(new URL('mover.js', import.meta.url))

/** Sources of the second server of a new store. */
const SOURCES = Array.from({ length: 60 }, (_, i) => `source${i}`).filter(
  (source) => spread(2)[shareOf(source)] === 1,
)
const PLAN = [...new Set(SOURCES.map(shareOf))].map((share) => [share, 'a'] as const)

async function newPlaces(): Promise<StoreServer[]> {
  return Promise.all(
    servers.map(async (server, i) => ({ name: 'ab'.charAt(i), url: await server.database() })),
  )
}

/** Runs a process that moves. @returns what it said; `undefined` if it was killed. */
async function move(
  places: readonly StoreServer[],
  kill: number,
): Promise<{ steps?: number; failed?: string } | undefined> {
  const args = [inject('compiledDir'), JSON.stringify(places), JSON.stringify(PLAN), String(kill)]
  const child = fork(MOVER, args, { execArgv: [] })
  let said: { steps?: number; failed?: string } | undefined
  child.on('message', (message) => {
    said = message as typeof said
  })
  await once(child, 'exit')
  return said
}

/** A claim may return before a slow server has answered, so it says nothing about what is left. */
async function send(store: Store, sent: string[]): Promise<void> {
  const lanes = ['fresh', 'backlog', 'bulk'] as const
  const claimed = await store.claim(
    lanes.map((lane) => ({ destination: 'crm', lane, limit: 1_000 })),
  )
  sent.push(...claimed.map(({ messageId }) => messageId))
  if (claimed.length > 0) await store.settle(claimed.map((one) => settlement(one)))
}

const waiting = async (store: Store) =>
  (await store.stats()).reduce(
    (sum, { fresh, backlog, bulk, leased }) => sum + fresh + backlog + bulk + leased,
    0,
  )

test('a move that is killed at any step loses nothing and repeats nothing, and ends with the next', async () => {
  let isOver = false
  let kills = 0
  for (let kill = 1; !isOver; kill++) {
    const places = await newPlaces()
    const store = await openStore(places)
    try {
      const accepted: string[] = []
      const put = async (round: string) => {
        const deliveries = SOURCES.map((source) =>
          newDelivery({ source, messageId: `${round}-${source}` }),
        )
        const ids = await store.put(deliveries)
        expect(ids.every((id) => id !== undefined)).toBe(true)
        accepted.push(...deliveries.map(({ messageId }) => messageId))
      }
      await put('before')
      const sent: string[] = []
      const said = await move(places, kill)
      // A move that is not killed has fewer steps than this.
      isOver = said !== undefined
      if (!isOver) {
        kills++
        // Calls are taken wherever the move was killed, and what comes again is recognized.
        await put('killed')
        const again = SOURCES.map((source) =>
          newDelivery({ source, messageId: `before-${source}` }),
        )
        const same = await store.put(again)
        expect(same, `killed at step ${kill}`).toEqual(SOURCES.map(() => undefined))
        if (kill % 3 === 0) await send(store, sent)
      }
      expect(await move(places, 0), `after a kill at step ${kill}`).toHaveProperty('steps')
      await put('after')
      const { shares } = await (store.servers as Servers).directory()
      for (const [share] of PLAN) {
        expect(shares[share]).toMatchObject({ server: 0, next: null })
        expect(shares[share]?.former.every(({ isMoving }) => !isMoving)).toBe(true)
      }
      const [trace] = await store.trace(`after-${SOURCES[0]}`)
      expect(serverOf(trace?.id ?? -1)).toBe(0)
      while ((await waiting(store)) > 0) await send(store, sent)
      expect(sent.sort(), `killed at step ${kill}`).toEqual(accepted.sort())
    } finally {
      await store.close()
    }
  }
  // Seven kinds of steps, before and after.
  expect(kills).toBeGreaterThanOrEqual(14)
}, 900_000)
