import { expect, test, vi } from 'vitest'
import { createLimit } from '../../src/post/limit.js'

/** An operation that runs until the test ends it. */
function operation(started: string[], name: string) {
  let end: (error?: Error) => void = () => undefined
  const run = () =>
    new Promise<string>((resolve, reject) => {
      started.push(name)
      end = (error) => {
        if (error === undefined) resolve(name)
        else reject(error)
      }
    })
  return {
    run,
    end: (error?: Error) => {
      end(error)
    },
  }
}

test('operations run in their order, as many at once as there are places, whatever becomes of them', async () => {
  const limit = createLimit(2)
  const started: string[] = []
  const all = ['a', 'b', 'c', 'd'].map((name) => operation(started, name))
  const results = all.map(({ run }) => limit(run).catch(String))
  expect(started).toEqual(['a', 'b'])
  all[1]?.end(new Error('failed'))
  expect(await results[1]).toBe('Error: failed')
  await vi.waitUntil(() => started.length > 2, 60_000)
  expect(started).toEqual(['a', 'b', 'c'])
  all[0]?.end()
  await vi.waitUntil(() => started.length > 3, 60_000)
  all[2]?.end()
  all[3]?.end()
  expect(await Promise.all(results)).toEqual(['a', 'Error: failed', 'c', 'd'])
})

test('an operation that lasts gives up its place once', async () => {
  const limit = createLimit(1, 5)
  const started: string[] = []
  const all = ['a', 'b', 'c'].map((name) => operation(started, name))
  const results = all.map(({ run }) => limit(run))
  await vi.waitUntil(() => started.length === 3, 60_000)
  for (const { end } of all) end()
  expect(await Promise.all(results)).toEqual(['a', 'b', 'c'])
  const later = ['d', 'e'].map((name) => operation(started, name))
  void later.map(({ run }) => limit(run))
  await Promise.resolve()
  expect(started.slice(3)).toEqual(['d'])
  for (const { end } of later) end()
})
