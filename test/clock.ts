// The client takes its clock when it is loaded, so that the fake timers of an application's tests do not reach it. This module is
// loaded before, and has it take functions that follow the global clock as long as a test asks for that.
import timers from 'node:timers'
import { vi } from 'vitest'

/** Global, since test files that share a process share the client too. */
const shared = globalThis as { isClockFollowed?: boolean }

/** Says whether the fake timers of the test are the client's as well. */
export function followClock(isFollowed: boolean): void {
  shared.isClockFollowed = isFollowed
}

if (shared.isClockFollowed === undefined) {
  followClock(false)
  const { setTimeout, clearTimeout } = timers
  Object.assign(timers, {
    setTimeout: (act: () => void, ms?: number) =>
      (shared.isClockFollowed ? globalThis : { setTimeout }).setTimeout(act, ms),
    clearTimeout: (timer: NodeJS.Timeout) => {
      const clock = shared.isClockFollowed ? globalThis : { clearTimeout }
      clock.clearTimeout(timer)
    },
  })
  const now = performance.now.bind(performance)
  const followedNow = () => {
    const clock = globalThis.performance as { now: () => number }
    const isMocked = shared.isClockFollowed === true || vi.isMockFunction(clock.now)
    return isMocked && clock.now !== followedNow ? clock.now() : now()
  }
  performance.now = followedNow
}
