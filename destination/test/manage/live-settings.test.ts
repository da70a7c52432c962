import { expect, test } from 'vitest'
import { LiveSettings } from '../../src/manage/live-settings.js'
import type { Managed } from '../../src/manage/managed.js'
import type { Settings } from '../../src/settings/settings.js'
import { settingsFor, silent } from '../run.js'

/** Settings whose retention says which ones they are. The former ones of each change end when the test says so. */
function setUp() {
  let next = settingsFor([])
  const managed = { settings: () => next, take: () => Promise.resolve([]) } as unknown as Managed
  const live = new LiveSettings(managed, silent)
  const ends: { resolve: () => void; reject: (error: Error) => void }[] = []
  live.usedBy(() =>
    Promise.resolve(() => new Promise<void>((resolve, reject) => ends.push({ resolve, reject }))),
  )
  const told: number[] = []
  live.afterwards(({ retentionMs }: Settings) => {
    told.push(retentionMs)
    return Promise.resolve()
  })
  const change = (retentionMs: number) => {
    next = { ...next, retentionMs }
    return live.follow([], true)
  }
  /** Resolves once everything has happened that does not wait. */
  const settle = () => new Promise((resolve) => setTimeout(resolve, 5))
  return { change, ends, told, settle }
}

test('what follows from a change is done again once the former settings have ended', async () => {
  const { change, ends, told, settle } = setUp()
  await change(1)
  await settle()
  expect(told).toEqual([1])
  ends[0]?.resolve()
  await settle()
  expect(told).toEqual([1, 1])
})

test('it is done by the present settings if another change came in between', async () => {
  const { change, ends, told, settle } = setUp()
  await change(1)
  await change(2)
  ends[0]?.resolve()
  await settle()
  expect(told).toEqual([1, 2, 2])
  ends[1]?.resolve()
  await settle()
  expect(told).toEqual([1, 2, 2, 2])
})

test('it is done also if something of the former settings could not be closed', async () => {
  const { change, ends, told, settle } = setUp()
  await change(1)
  ends[0]?.reject(new Error('no'))
  await settle()
  expect(told).toEqual([1, 1])
})
