import { expect, onTestFinished, test, vi } from 'vitest'
import { watchStore } from '../../src/operate/store-watch.js'
import { StoreError } from '../../src/store/store-error.js'

test('tells once that the file of the store was removed, and once that it is back', async () => {
  const told: string[] = []
  let error: Error | undefined
  let asked = 0
  const watch = watchStore(
    {
      ping: () => {
        asked++
        return error ? Promise.reject(error) : Promise.resolve()
      },
    },
    {
      storeRemoved: (error) => told.push((error as Error).message),
      storeFound: () => told.push('found'),
    },
    1,
  )
  onTestFinished(() => {
    watch.stop()
  })
  const askedAgain = (times = 3) => {
    const until = asked + times
    return vi.waitUntil(() => asked >= until, 60_000)
  }
  await askedAgain()
  error = new StoreError('failed', 'another error')
  await askedAgain()
  expect(told).toEqual([])
  error = new StoreError('removed', 'gone')
  await askedAgain()
  // It does not say that the file is back.
  error = new StoreError('failed', 'another error')
  await askedAgain()
  expect(told).toEqual(['gone'])
  error = undefined
  await askedAgain()
  error = new StoreError('removed', 'gone again')
  await askedAgain()
  expect(told).toEqual(['gone', 'found', 'gone again'])
  watch.stop()
})
