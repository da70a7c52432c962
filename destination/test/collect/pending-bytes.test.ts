import { expect, test } from 'vitest'
import { StoreError } from '../../src/store/store-error.js'
import { PendingBytes } from '../../src/http/pending-bytes.js'
import type { Refusal } from '../../src/http/refusal.js'
import { KEY, startCollector } from './start.js'

const BODY = JSON.stringify({ userId: 'u', event: 'x'.repeat(960) })

const send = (url: string, key = KEY) =>
  fetch(`${url}/v1/track`, {
    ...{ method: 'POST', body: BODY },
    headers: { authorization: `Basic ${btoa(`${key}:`)}` },
  })

/** A collector whose store stalls until `resume` is called. */
async function stalled(maxPendingBytes: number) {
  const started = await startCollector({ maxPendingBytes })
  const waiting: ((error?: Error) => void)[] = []
  started.accept = () =>
    new Promise((resolve, reject) => {
      waiting.push((error) => {
        if (error) reject(error)
        else resolve()
      })
    })
  return { ...started, started, waiting }
}

test('a stalled store holds a limited number of bytes, and then the answer is 503 with Retry-After', async () => {
  const { url, waiting, started } = await stalled(3 * BODY.length)
  const first = [send(url), send(url, 'APP_KEY')]
  await expect.poll(() => waiting.length).toBe(2)
  const refused = await send(url)
  expect([refused.status, await refused.json()]).toMatchObject([
    503,
    {
      code: 'store_unavailable',
      message: 'The store is too slow. The request was not accepted. Send it again later.',
    },
  ])
  expect(refused.headers.get('retry-after')).toMatch(/^[1-5]$/)
  expect(waiting).toHaveLength(2)
  expect(started.counted).toContain('web store_unavailable')

  for (const resume of waiting) resume()
  expect((await Promise.all(first)).map(({ status }) => status)).toEqual([200, 200])
  started.accept = () => Promise.resolve()
  expect((await send(url)).status).toBe(200)
})

test('one source leaves half of that room to the others', async () => {
  const { url, waiting } = await stalled(6 * BODY.length)
  const first = [send(url), send(url)]
  await expect.poll(() => waiting.length).toBe(2)
  expect((await send(url)).status).toBe(503)
  const other = send(url, 'APP_KEY')
  await expect.poll(() => waiting.length).toBe(3)
  for (const resume of waiting) resume()
  expect((await Promise.all([...first, other])).map(({ status }) => status)).toEqual([
    200, 200, 200,
  ])
})

test('the refusal says whether most of the bytes wait for the store, or to be read', async () => {
  const pending = new PendingBytes(13)
  const never = () => new Promise<never>(() => undefined)
  const code = () => {
    try {
      pending.check('mac', 4)
      return 'accepted'
    } catch (error) {
      return (error as Refusal).code
    }
  }
  const stored: (() => void)[] = []
  const body = (source: string) =>
    pending.during(source, 4, () =>
      pending.storing(4, () => new Promise<void>((resolve) => stored.push(resolve))),
    )
  void pending.during('app', 4, never)
  const first = body('web')
  expect(code()).toBe('accepted')
  const second = body('ios')
  expect(code()).toBe('store_unavailable')
  for (const resolve of stored) resolve()
  await Promise.all([first, second])
  expect(code()).toBe('accepted')
  void pending.during('web', 4, never)
  void body('ios')
  expect(code()).toBe('overloaded')
})

test('a store that answers at once is never called too slow, however many calls wait to be read', async () => {
  const { url } = await startCollector({ maxPendingBytes: 600_000, behind: () => 5_000 })
  const call = { type: 'track', userId: 'u', event: 'e', properties: { note: 'x'.repeat(100) } }
  const body = JSON.stringify({ batch: Array.from({ length: 1_500 }, () => call) })
  const answers = Array.from({ length: 30 }, async () => {
    const headers = { authorization: `Basic ${btoa(`${KEY}:`)}` }
    const response = await fetch(`${url}/v1/batch`, { method: 'POST', body, headers })
    const { code = 'accepted' } = (await response.json()) as { code?: string }
    return code
  })
  const codes = new Set(await Promise.all(answers))
  expect(codes).toContain('accepted')
  expect(codes).not.toContain('store_unavailable')
})

test('unless it is said otherwise, 32 MB wait in all, and 16 MB of one source', () => {
  const pending = new PendingBytes()
  const isRefused = (source: string, bytes: number) => {
    try {
      pending.check(source, bytes)
      return false
    } catch {
      return true
    }
  }
  void pending.during('web', 1, () => new Promise(() => undefined))
  expect([15_999_998, 15_999_999].map((bytes) => isRefused('web', bytes))).toEqual([false, true])
  expect([31_999_998, 31_999_999].map((bytes) => isRefused('app', bytes))).toEqual([false, true])
})

test('what the store refuses counts no more', async () => {
  const { url, waiting, started } = await stalled(2 * BODY.length)
  const first = send(url)
  await expect.poll(() => waiting.length).toBe(1)
  waiting[0]?.(new StoreError('failed', 'the disk is gone'))
  expect((await first).status).toBe(503)
  started.accept = () => Promise.resolve()
  expect((await send(url)).status).toBe(200)
})

test('a request that is larger than the limit is accepted if no other one waits', async () => {
  const { url, started } = await stalled(10)
  started.accept = () => Promise.resolve()
  expect((await send(url)).status).toBe(200)
})
