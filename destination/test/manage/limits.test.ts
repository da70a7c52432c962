// As many sources and destinations as one installation may have. The durations are printed, because they depend on the machine.
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { expect, test } from 'vitest'
import { createSealer } from '../../src/manage/seal.js'
import type { Kind } from '../../src/manage/managed.js'
import { openStore } from '../../src/store/open.js'
import { post, settingsFor, start, track } from '../run.js'
import { ask, SETTINGS_KEY } from './api.js'

const EACH = 10_000
const SLICE = 500

test(`with ${EACH} sources and ${EACH} destinations in the store, a change is in use at once`, async () => {
  const running = await start(settingsFor([], { settingsKeys: [SETTINGS_KEY] }))
  const numbers = Array.from({ length: EACH }, (_, i) => i)
  const file = join(emptyFolder(), 'settings.json')
  const wanted = {
    sources: numbers.map((n) => ({ name: `s${n}`, writeKey: `key-${n}` })),
    destinations: numbers.map((n) => ({
      name: `d${n}`,
      sources: [`s${n}`],
      sharedSecret: `secret-${n}`,
      webhooks: [{ url: `https://e${n}.example.com/hook`, headers: { 'X-Team': 'growth' } }],
    })),
  }
  const delay = monitorEventLoopDelay({ resolution: 1 })
  const changes: string[] = []
  for (let i = 0; i < 5; i++) {
    delay.reset()
    delay.enable()
    const changedAt = performance.now()
    const { body } = await ask(running, 'POST', `/sources/s${i}/rotation`)
    const ms = performance.now() - changedAt
    delay.disable()
    changes.push(`${ms.toFixed(0)} ms (longest stall ${(delay.max / 1e6).toFixed(0)} ms)`)
    const { writeKey = '' } = body.generated
    expect((await post(running, [track('m')], writeKey)).status).toBe(200)
    expect((await post(running, [track('m')], `key-${i}`)).status).toBe(200)
  }
  const { body } = await ask(running, 'GET', '/destinations?q=e9999.&limit=10')
  expect(body).toMatchObject({ total: 1, items: [{ name: 'd9999' }] })
  console.log(`start: ${startMs.toFixed(0)} ms; changes: ${changes.join(', ')}`)
}, 60_000)
