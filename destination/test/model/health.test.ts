import { describe, expect, test } from 'vitest'
import { healthOf, recentOf, worstOf } from '../../src/model/health.js'

const NOW = 10_000_000
const minute = (ago: number, delivered: number, failed: number) => ({
  at: NOW - ago * 60_000,
  delivered,
  failed,
})

describe('the state of an endpoint', () => {
  test.each([
    ['open', 0, 0, null, null, 'down'],
    ['closed', 10, 10, 10, 0, 'failing'],
    ['half-open', 10, 10, 1, 0, 'failing'],
    ['closed', 10, 10, null, null, 'failing'],
    ['closed', 10, 8, 0, 1, 'unsteady'],
    ['closed', 10, 8, 0, 2, 'recovering'],
    ['half-open', 10, 8, 0, 1, 'recovering'],
    ['closed', 14, 4, 0, 8, 'unsteady'],
    ['closed', 14, 4, 0, 10, 'recovering'],
    ['closed', 14, 4, null, null, 'unsteady'],
    ['closed', 14, 4, 1, 0, 'unsteady'],
    ['closed', 100, 5, 0, 58, 'unsteady'],
    ['closed', 100, 5, 0, 59, 'recovering'],
    ['closed', 100, 4, 1, 0, 'healthy'],
    ['closed', 0, 0, null, null, 'idle'],
    [undefined, 5, 0, null, null, 'healthy'],
  ] as const)(
    '(%s breaker, %d sent, %d failed, then %s failures or %s deliveries in a row) is %6$s',
    (breaker, sent, failed, failuresInARow, deliveredInARow, is) => {
      expect(healthOf(breaker, { sent, failed }, { failuresInARow, deliveredInARow })).toBe(is)
    },
  )

  test('is judged by the last 5 minutes, or by the last minute that had requests', () => {
    expect(recentOf([minute(9, 50, 0), minute(2, 1, 1), minute(1, 0, 2)], NOW)).toEqual({
      sent: 4,
      failed: 3,
    })
    expect(recentOf([minute(30, 50, 0), minute(20, 0, 2), minute(1, 0, 0)], NOW)).toEqual({
      sent: 2,
      failed: 2,
    })
    expect(recentOf([], NOW)).toEqual({ sent: 0, failed: 0 })
  })

  test('of a destination is that of its worst endpoint', () => {
    expect(worstOf(['healthy', 'failing', 'idle'])).toBe('failing')
    expect(worstOf([])).toBe('idle')
  })
})
