import { cpSync, renameSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { describe, expect, inject, test, vi } from 'vitest'
import { openStore } from '../../../src/store/open.js'
import type { Store } from '../../../src/store/store.js'
import { newDelivery, settlement } from '../contract.js'
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
}, 900_000)

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

describe.each([
  ['before it has carried out a call', 'if (isDeadly(message)) throw new Error("out of luck")'],
  [
    'before it has answered a call',
    'if (isDeadly(message)) port.postMessage = () => { throw new Error("out of luck") }',
  ],
])('a store whose thread dies %s', (_, die) => {
  const prepare = async () => {
    const place = await folder()
    const dir = `${inject('compiledDir')}/${basename(place.path)}`
    cpSync(join(inject('compiledDir'), 'store'), `${dir}/store`, { recursive: true })
    cpSync(join(inject('compiledDir'), 'model'), `${dir}/model`, { recursive: true })
    const thread = join(dir, 'store/sqlite/thread.js')
    renameSync(thread, join(dir, 'store/sqlite/real-thread.js'))
    writeFileSync(
      thread,
      `import { parentPort as port } from 'node:worker_threads'
       const isDeadly = (message) => JSON.stringify(message).includes('deadly')
       const on = port.on.bind(port)
       port.on = (event, listen) => on(event, (message) => {
         ${die}
         listen(message)
       })
       await import('./real-thread.js')`,
    )
    const { openStore: open } = (await import(join(dir, 'store/open.js'))) as {
      openStore: typeof openStore
    }
    return { store: await open(`sqlite:${place.path}/store.db`), place }
  }
  const again = async <T>(call: () => Promise<T>): Promise<T> =>
    await vi.waitFor(call, { timeout: 20_000, interval: 20 })

  test('fails what is under way, and goes on with another one', async () => {
    const { store, place } = await prepare()
    const [id = 0] = await store.put([newDelivery({ messageId: 'm', state: 'leased' })])
    await expect(store.put([newDelivery({ messageId: 'deadly' })])).rejects.toMatchObject({
      code: 'failed',
      message: "The store's thread has died. Another one is being started.",
      cause: { message: 'out of luck' },
    })
    await expect(store.stats()).rejects.toMatchObject({ cause: { message: 'out of luck' } })
    // Its lease still holds, so it is not sent twice.
    const claimed = await again(() =>
      store.claim([{ destination: 'crm', lane: 'backlog', limit: 9 }]),
    )
    expect(claimed).toEqual([])
    expect(await store.settle([settlement({ id, attempt: 1 })])).toBe(0)
    expect(await store.put([newDelivery({ messageId: 'm' })])).toEqual([undefined])
    await store.close()
    await place[Symbol.asyncDispose]()
  })

  test('can be closed before another one runs', async () => {
    const { store, place } = await prepare()
    await expect(store.put([newDelivery({ messageId: 'deadly' })])).rejects.toThrow('has died')
    await store.close()
    await expect(store.stats()).rejects.toThrow('is closed')
    const next = await openStore(`sqlite:${place.path}/store.db`)
    await next.close()
    await place[Symbol.asyncDispose]()
  })
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
