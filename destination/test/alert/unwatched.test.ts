// What fails is only known while somebody watches. The clock is the test's, so that days pass in a moment.
import { expect, test } from 'vitest'
import type { Settings } from '../../src/settings/settings.js'
import { alerts, HOUR, OPS, world } from './world.js'

test.each<[string, Partial<Settings>]>([
  ['no alerts', { alerts: undefined }],
  ['it as the one that gets the alerts', { alerts: { ...alerts, destination: 'crm' } }],
  ['another destination', { destinations: [OPS] }],
])('a time in which the settings had %s counts for no failure', async (_, changes) => {
  const { fail, given, pass, pauses, succeed, use } = await world()
  for (let i = 0; i < 13; i++) {
    fail()
    await pass(10_000)
  }
  use(changes)
  for (let hour = 0; hour < 6 * 24; hour++) {
    succeed()
    await pass(HOUR)
  }
  use({})
  await pass(10_000)
  fail()
  for (let i = 0; i < 3; i++) await pass(3_000)
  expect(given).toEqual([])
  expect(pauses.of('crm')).toBeUndefined()
  // From here on, it counts.
  for (let i = 0; i < 8; i++) {
    fail()
    await pass(10 * 60_000)
  }
  expect(given).toEqual(['Endpoint Failing'])
})
