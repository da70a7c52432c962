import { cpSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, inject, test } from 'vitest'
import { openStore } from '../../../src/store/open.js'
import type { Store } from '../../../src/store/store.js'
import { newDelivery } from '../contract.js'
import { startChild } from './child.js'
import { folder } from './subject.js'

const KILLS = process.env['SLOW'] ? 20 : 3
const ACKNOWLEDGED_BEFORE_KILL = 1_500

test(`nothing that was acknowledged is lost in ${KILLS} kills under load`, async () => {
  await using place = await folder()
  const url = `sqlite:${place.path}/store.db`
  const counts = { acknowledged: 0, settled: 0, lost: 0, unsettled: 0, stored: 0 }
  for (let run = 0; run < KILLS; run++) {
    const { put, settled } = await killUnderLoad(url, `run${run}`)
    const store = await openStore(url)
    const states = await statesOf(store, put)
    counts.acknowledged += put.length
    counts.settled += settled.length
    counts.lost += put.filter((id) => !states.get(id)).length
    counts.unsettled += settled.filter((id) => states.get(id) !== 'done').length
    // Deliveries that the killed process had leased are due at once.
    const [stats] = await store.stats()
    expect(stats).toMatchObject({ leased: 0, fresh: 0 })
    expect(new Set(states.values())).toEqual(new Set(['backlog', 'done']))
    const [again] = await store.claim([{ destination: 'crm', lane: 'backlog', limit: 1 }])
    expect(again?.attempt).toBeGreaterThan(1)
    counts.stored = stats?.backlog ?? 0
    await store.close()
  }
  console.log(`${KILLS} kills: ${JSON.stringify(counts)}`)
  expect(counts).toMatchObject({ lost: 0, unsettled: 0 })
}, 300_000)

test('a second process is refused, and admitted once the first was killed', async () => {
  await using place = await folder()
  const url = `sqlite:${place.path}/store.db`
  const first = await new Promise<ReturnType<typeof startChild>>((resolve) => {
    const child = startChild(
      url,
      'first',
      () => {
        resolve(child)
      },
      true,
    )
  })
  await expect(openStore(url)).rejects.toMatchObject({
    code: 'locked',
    message: expect.stringMatching(
      /another running process\. End that process, or name another/,
    ) as unknown,
  })
  await first.kill()
  const store = await openStore(url)
  expect(await store.put([newDelivery()])).toEqual([1])
  await store.close()
})

test('a store whose thread dies fails what is under way, and all that comes later', async () => {
  await using place = await folder()
  const dir = `${inject('compiledDir')}/dying`
  cpSync(join(inject('compiledDir'), 'store'), dir, { recursive: true })
  writeFileSync(
    join(dir, 'sqlite/thread.js'),
    `import { parentPort } from 'node:worker_threads'
     parentPort.on('message', () => { throw new Error('out of luck') })
     parentPort.postMessage({ value: undefined })`,
  )
  const dying = (await import(join(dir, 'open.js'))) as { openStore: typeof openStore }
  const store = await dying.openStore(`sqlite:${place.path}/store.db`)
  const died = expect.objectContaining({
    code: 'failed',
    message: "The store's thread has died. Open the store again.",
    cause: expect.objectContaining({ message: 'out of luck' }) as unknown,
  }) as unknown
  await expect(store.put([newDelivery()])).rejects.toEqual(died)
  await expect(store.stats()).rejects.toEqual(died)
  await store.close()
})

/** Starts a process that puts, kills it after enough acknowledgements, and returns the acknowledged ids. */
async function killUnderLoad(url: string, run: string) {
  const put: string[] = []
  const settled: string[] = []
  const child = await new Promise<ReturnType<typeof startChild>>((resolve) => {
    const started = startChild(url, run, (said) => {
      put.push(...(said.put ?? []))
      settled.push(...(said.settled ?? []))
      if (put.length >= ACKNOWLEDGED_BEFORE_KILL) resolve(started)
    })
  })
  await child.kill()
  return { put, settled }
}

async function statesOf(store: Store, ids: string[]) {
  const traces = await Promise.all(ids.map((id) => store.trace(id)))
  return new Map(ids.map((id, i) => [id, traces[i]?.[0]?.state]))
}
