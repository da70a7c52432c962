import { expect, onTestFinished, test, vi } from 'vitest'
import { closeInTime } from '../../../src/cli/serve/stop.js'
import type { RunningDestination } from '../../../src/cli/serve/running.js'
import { silent } from '../../run.js'

test('a stop that lasts for 9 s ends with 1, and the log says what is sent again', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  onTestFinished(() => void vi.useRealTimers())
  const lines: string[] = []
  const log = { ...silent, error: (_fields: object, message: string) => lines.push(message) }
  const running = { close: () => new Promise<void>(() => undefined) } as RunningDestination
  const ended = vi.fn()
  void closeInTime(running, log).then(ended)
  await vi.advanceTimersByTimeAsync(8_999)
  expect(ended).not.toHaveBeenCalled()
  await vi.advanceTimersByTimeAsync(1)
  expect(ended).toHaveBeenCalledWith(1)
  expect(lines).toEqual([expect.stringMatching(/these messages are sent again/)])
})
