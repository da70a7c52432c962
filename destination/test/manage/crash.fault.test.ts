// Processes that are killed in the middle of changes, and what of these changes is there afterwards.
import { setTimeout as wait } from 'node:timers/promises'
import { afterAll, describe, expect, test } from 'vitest'
import { folderWith, start as startProcess, type Running } from '../cli/process.js'
import { ADMIN_TOKEN, track } from '../run.js'
import { dice } from '../simulation/chance.js'
import { startServer } from '../store/postgres/server.js'
import { ask, SETTINGS_KEY } from './api.js'

const ROUNDS = process.env['SLOW'] ? 40 : 5

/** Clients that change something at the same time. */
const CLIENTS = 4

const cleanUps: (() => unknown)[] = []
afterAll(async () => {
  for (const cleanUp of cleanUps.reverse()) await cleanUp()
})

interface Served {
  process: Running
  adminUrl: string
}

const folderFor = (store?: string) =>
  folderWith({
    listen: '127.0.0.1:0',
    adminToken: ADMIN_TOKEN,
    settingsKey: SETTINGS_KEY,
    ...(store !== undefined && { store }),
  })

async function serve(folder: string): Promise<Served> {
  const process = startProcess(['serve', '--no-pretty'], { folder })
  const [, adminUrl = ''] = await process.printed(/"url":"(http[^"]+)".*"listening"/)
  return { process, adminUrl }
}

/** Changes sources until the process is killed, and notes what was answered. */
async function change(served: Served, client: string, answered: Map<string, string>) {
  for (let n = 0; ; n++) {
    const name = `${client}-${n}`
    try {
      const { status, body } = await ask(served, 'PUT', `/sources/${name}`, {})
      expect(status).toBe(201)
      answered.set(name, body.generated['writeKey'] ?? '')
      if (n % 3 === 2) {
        const old = `${client}-${n - 1}`
        answered.delete(old)
        expect((await ask(served, 'DELETE', `/sources/${old}`)).status).toBe(200)
      }
    } catch (error) {
      // The connection ends with the process.
      if (error instanceof TypeError) return
      throw error
    }
  }
}

/** Waits until so many more sources were created: the process is killed at a random moment, but never before it did anything. */
async function someAnswers(answered: Map<string, string>, count: number): Promise<void> {
  const enough = answered.size + count
  while (answered.size < enough) await wait(5)
}

async function isAccepted({ adminUrl }: Served, key: string): Promise<boolean> {
  const response = await fetch(`${adminUrl}/v1/track`, {
    method: 'POST',
    headers: { Authorization: `Basic ${btoa(`${key}:`)}` },
    body: JSON.stringify(track('m')),
  })
  await response.text()
  return response.status === 200
}

/** Each source that exists was created once more often than it was deleted, by the audit log. */
async function compareWithLog(served: Served): Promise<Set<string>> {
  const names = new Set<string>()
  for (let after = ''; ;) {
    const { body } = await ask(served, 'GET', `/sources?limit=1000&after=${after}`)
    for (const { name } of body.items) names.add(name)
    if (body.next === null) break
    after = String(body.next)
  }
  const counts = new Map<string, number>()
  for (let before = ''; ;) {
    const { body } = await ask(served, 'GET', `/audit?limit=1000${before}`)
    for (const { name, action } of body.entries) {
      counts.set(name, (counts.get(name) ?? 0) + (action === 'create' ? 1 : -1))
    }
    if (body.next === null) break
    before = `&before=${body.next}`
  }
  for (const [name, count] of counts) expect(count, name).toBe(names.has(name) ? 1 : 0)
  expect([...names].filter((name) => !counts.has(name))).toEqual([])
  return names
}

describe('after kill -9 in the middle of changes', { timeout: 900_000 }, () => {
  const seed = Number(process.env['SEED'] ?? Math.floor(Math.random() * 1e9))

  test(`everything that was answered is there, and everything else as a whole or not at all: SEED=${seed}`, async () => {
    const { between } = dice(seed)
    const folder = folderFor()
    const answered = new Map<string, string>()
    let served = await serve(folder)
    for (let round = 0; round < ROUNDS; round++) {
      const clients = Array.from({ length: CLIENTS }, (_, i) =>
        change(served, `r${round}-c${i}`, answered),
      )
      await someAnswers(answered, between(1, 30))
      served.process.kill('SIGKILL')
      await Promise.all(clients)
      await served.process.ended
      served = await serve(folder)
      const names = await compareWithLog(served)
      expect([...answered.keys()].filter((name) => !names.has(name))).toEqual([])
    }
    expect(answered.size).toBeGreaterThan(ROUNDS)
    for (const [name, key] of answered) expect(await isAccepted(served, key), name).toBe(true)
    served.process.kill('SIGKILL')
  })

  test(`the other process of a PostgreSQL store goes on, and knows the same: SEED=${seed}`, async () => {
    const { between } = dice(seed + 1)
    const server = await startServer()
    cleanUps.push(() => server.dispose())
    const folder = folderFor(await server.database())
    const other = await serve(folder)
    const answered = new Map<string, string>()
    for (let round = 0; round < ROUNDS; round++) {
      const served = await serve(folder)
      const clients = Array.from({ length: CLIENTS }, (_, i) =>
        change(served, `r${round}-c${i}`, answered),
      )
      await someAnswers(answered, between(1, 30))
      expect((await ask(other, 'PUT', `/sources/other-${round}`, {})).status).toBe(201)
      served.process.kill('SIGKILL')
      await Promise.all(clients)
      // The server may still be committing what the process has sent last.
      expect((await ask(other, 'PATCH', `/sources/other-${round}`, {})).status).toBe(200)
      const names = await compareWithLog(other)
      expect([...answered.keys()].filter((name) => !names.has(name))).toEqual([])
    }
    expect(answered.size).toBeGreaterThan(ROUNDS)
    for (const [name, key] of answered) expect(await isAccepted(other, key), name).toBe(true)
    other.process.kill('SIGKILL')
  })
})
