import { expect, test, vi } from 'vitest'
import { destination, endpoint, post, settingsFor, start, track } from './run.js'

test('a clock that is set back an hour during an outage delays no retry', async () => {
  const realNow = Date.now
  let aheadMs = 0
  const clock = vi.spyOn(Date, 'now').mockImplementation(() => realNow() + aheadMs)
  try {
    const crm = await endpoint(503, 204)
    const running = await start(settingsFor([destination([crm])]))
    await post(running, [track('m1')])
    await crm.has(1)
    aheadMs = -3_600_000
    await crm.has(2)
    expect(crm.received.map(({ headers }) => headers['x-attempt'])).toEqual(['1', '2'])
  } finally {
    clock.mockRestore()
  }
})
