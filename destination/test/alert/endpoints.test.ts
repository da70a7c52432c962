// A destination is paused only if each of its endpoints fails.
import { expect, test, vi } from 'vitest'
import { DAY, HOUR, world } from './world.js'

const [A, B] = ['https://a.example.com/', 'https://b.example.com/'] as const

/** Both endpoints have failed for a while, and then nothing was sent for longer than the time after which a destination is paused. */
async function quietAfterFailures() {
  const all = await world([A, B])
  for (let i = 0; i < 4; i++) {
    for (const url of [A, B]) all.fail(url)
    await all.pass(10 * 60_000)
  }
  await all.pass(6 * DAY)
  return all
}

test('a destination is paused once all of its endpoints have failed for too long', async () => {
  const { fail, given, pass, pauses } = await quietAfterFailures()
  for (const url of [A, B]) fail(url)
  await pass(1_000)
  expect(pauses.of('crm')).toMatchObject({ by: 'alerts' })
  expect(given).toContain('Destination Paused')
})

test.each([
  [A, B],
  [B, A],
])(
  'a message that %s refuses and %s accepts does not pause their destination',
  async (refusing, accepting) => {
    const { fail, given, pass, pauses, succeed } = await quietAfterFailures()
    fail(refusing)
    succeed(accepting)
    await pass(1_000)
    await pass(HOUR)
    expect(pauses.of('crm')).toBeUndefined()
    expect(given).toEqual(['Endpoint Failing'])
  },
)

test('an endpoint that accepts a message while the pause is prepared prevents it', async () => {
  const { fail, pass, pauses, store, succeed } = await quietAfterFailures()
  const stats = vi.spyOn(store, 'stats')
  const counted = store.stats.bind(store)
  stats.mockImplementationOnce(async () => {
    succeed(B)
    return await counted()
  })
  for (const url of [A, B]) fail(url)
  await pass(1_000)
  expect(stats).toHaveBeenCalled()
  expect(pauses.of('crm')).toBeUndefined()
})
