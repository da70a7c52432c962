import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { EXIT } from '../../../src/cli/command.js'
import { closeInTime } from '../../../src/cli/serve/stop.js'
import type { RunningDestination } from '../../../src/cli/serve/running.js'
import { silent } from '../../run.js'

beforeEach(() => {
  vi.useFakeTimers()
})
afterEach(() => {
  vi.useRealTimers()
})

test('a destination that does not close is left before a supervisor kills it after 10 s', async () => {
  const close = () => new Promise<void>(() => undefined)
  const errors: string[] = []
  const error = (_details: object, message: string) => void errors.push(message)
  const closing = closeInTime({ close } as RunningDestination, { ...silent, error })
  await vi.advanceTimersByTimeAsync(8_999)
  expect(errors).toEqual([])
  await vi.advanceTimersByTimeAsync(1)
  expect(errors).toEqual([expect.stringContaining('stopped before all requests had ended')])
  expect(await closing).toBe(EXIT.failed)
})
