import { describe, expect, onTestFinished, test, vi } from 'vitest'
import {
  createClient,
  events,
  runModule,
  runScript,
  startCollector,
  trackMany,
  until,
} from './collector.js'

/** What a test that forgets its fake timers makes of the global clock. */
const FORGOTTEN = `for (const name of ['setTimeout', 'setInterval', 'setImmediate']) globalThis[name] = () => ({})
globalThis.performance = { now: () => 0 }`

describe('a client under fake timers', () => {
  test.each(['', "{ apis: ['setTimeout', 'setImmediate'] }"])(
    'of node:test sends and tries again, during them and afterwards (%s)',
    async (some) => {
      const collector = await startCollector()
      collector.script(503)
      const ended = await runScript(
        `import { mock } from 'node:test'
         const analytics = new Analytics('k')
         mock.timers.enable(${some})
         analytics.track({ userId: 'u', event: 'one' })
         console.log(await analytics.flush())
         analytics.track({ userId: 'u', event: 'two' })
         const flushed = analytics.flush()
         mock.timers.reset()
         analytics.track({ userId: 'u', event: 'three' })
         console.log(await flushed, await analytics.close())`,
        { env: { ANALYTICS_ENDPOINT: collector.url } },
      )
      expect(ended).toEqual({
        code: 0,
        signal: null,
        stdout: `{ delivered: 1, failed: 0 }
{ delivered: 1, failed: 0 } { delivered: 3, failed: 0 }
`,
        stderr: '',
      })
    },
  )

  test(
    'of node:test gives up at its timeouts while the endpoint is away',
    { tags: 'long' },
    async () => {
      const ended = await runScript(
        `import { mock } from 'node:test'
       const analytics = new Analytics('k', { onFailed: ({ error }) => console.log(error.code) })
       mock.timers.enable()
       analytics.track({ userId: 'u', event: 'e' })
       console.log(await analytics.flush({ timeout: 10 }))
       console.log(await analytics.close({ timeout: 10 }))`,
        { env: { ANALYTICS_ENDPOINT: 'http://127.0.0.1:1' } },
      )
      expect(ended).toMatchObject({
        code: 0,
        stdout: `{ delivered: 0, failed: 0 }
close_timeout
{ delivered: 0, failed: 1 }
`,
      })
    },
  )

  test('of Vitest or Sinon sends when its interval ends, also once a year has passed on them', async () => {
    const collector = await startCollector()
    const analytics = createClient(collector, { flushAfter: 100 })
    vi.useFakeTimers()
    onTestFinished(() => {
      vi.useRealTimers()
    })
    trackMany(analytics, 1)
    await collector.arrived(1)
    vi.advanceTimersByTime(31_536_000_000)
    trackMany(analytics, 1, 1)
    await analytics.flush()
    vi.useRealTimers()
    trackMany(analytics, 1, 2)
    await until(() => collector.accepted.length === 3)
    expect(events(...collector.arrivals)).toEqual(['e0', 'e1', 'e2'])
  })

  test('that are older than itself, as those of Jest can be, sends', async () => {
    const collector = await startCollector()
    collector.script(503)
    const ended = await runScript(
      `const analytics = new Analytics('k')
       analytics.track({ userId: 'u', event: 'e' })
       console.log(await analytics.close())`,
      {
        env: { ANALYTICS_ENDPOINT: collector.url },
        flags: ['--import', `data:text/javascript,${encodeURIComponent(FORGOTTEN)}`],
      },
    )
    expect(ended).toMatchObject({ code: 0, stdout: '{ delivered: 1, failed: 0 }\n' })
  })
})

describe('in Jest, a client', { tags: 'long' }, () => {
  test('is loaded in its environment for browsers, which lacks some globals', async () => {
    const collector = await startCollector()
    const lacking =
      'data:text/javascript,delete globalThis.TextEncoder; delete globalThis.TextDecoder'
    const ended = await runScript(
      `import { createTestAnalytics } from 'hookline/testing'
       const { analytics: tested, messages } = createTestAnalytics()
       for (const analytics of [tested, new Analytics('k')]) {
         analytics.track({ userId: 'u', event: 'e' })
         console.log(await analytics.close())
       }
       console.log(messages.track.length)`,
      { env: { ANALYTICS_ENDPOINT: collector.url }, flags: ['--import', lacking] },
    )
    const each = '{ delivered: 1, failed: 0 }'
    expect(ended).toMatchObject({ stdout: `${each}\n${each}\n1\n`, stderr: '' })
    expect(events(...collector.arrivals)).toEqual(['e'])
  })

  test('is no open handle, as Jest counts them', async () => {
    const ended = await runModule(
      `import { createHook } from 'node:async_hooks'
       const open = new Set()
       const init = (id, type) => type === 'hookline' && open.add(id)
       createHook({ init, destroy: (id) => open.delete(id) }).enable()
       await import('hookline')
       await new Promise((resolve) => setTimeout(resolve))
       console.log(open.size)`,
    )
    expect(ended).toMatchObject({ stdout: '0\n', stderr: '' })
  })
})
