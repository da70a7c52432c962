// With SLOW=1, as many sources and destinations as one installation may have; by default, a tenth of them. The durations are
// printed, because they depend on the machine.
import { closeSync, openSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { expect, test } from 'vitest'
import { emptyFolder, run } from '../cli/process.js'
import { ADMIN_TOKEN, post, settingsFor, start, track } from '../run.js'
import { ask, SETTINGS_KEY } from './api.js'

const EACH = process.env['SLOW'] ? 10_000 : 1_000

test(
  `with ${EACH} sources and ${EACH} destinations in the store, all or one of them change without a long stall`,
  { tags: 'long' },
  async () => {
    const folder = emptyFolder()
    const numbers = Array.from({ length: EACH }, (_, n) => n)
    const sources = numbers.map((n) => ({ name: `s${n}`, writeKey: `key-${n}` }))
    const destinations = numbers.map((n) => ({
      name: `d${n}`,
      sources: [`s${n}`],
      sharedSecret: `secret-${n}`,
      webhooks: [{ url: `https://e${n}.example.com/hook`, headers: { 'X-Team': 'growth' } }],
    }))
    const settings = settingsFor([], { settingsKeys: [SETTINGS_KEY] })
    const first = await start(settings)

    const delay = monitorEventLoopDelay({ resolution: 1 })
    const lines: string[] = []
    const measured = async <T>(what: string, work: () => Promise<T>): Promise<T> => {
      delay.reset()
      delay.enable()
      const startedAt = performance.now()
      const result = await work()
      const ms = performance.now() - startedAt
      delay.disable()
      lines.push(`${what}: ${ms.toFixed(0)} ms (longest stall ${(delay.max / 1e6).toFixed(0)} ms)`)
      return result
    }
    // Another process is the client, so that only the destination is measured here.
    const cli = async (what: string, ...args: string[]) => {
      const stdout = openSync(join(folder, `${what}.json`), 'w')
      const env = { HOOKLINE_ADMIN_TOKEN: ADMIN_TOKEN }
      const command = ['settings', ...args, '--url', first.adminUrl, '--json']
      const { code, stderr } = await measured(what, () => run(command, { folder, env, stdout }))
      closeSync(stdout)
      expect([code, stderr]).toEqual([0, ''])
    }
    writeFileSync(join(folder, 'settings.json'), JSON.stringify({ sources, destinations }))
    await cli('create', 'apply', 'settings.json', '--yes')
    expect((await post(first, [track('m')], `key-${EACH - 1}`)).status).toBe(200)
    await cli('export', 'export')
    const { etag } = await ask(first, 'GET', '/settings')
    await cli('same', 'apply', 'export.json', '--prune', '--yes')
    expect((await ask(first, 'GET', '/settings')).etag).toBe(etag)
    await first.close()

    const running = await measured('start', () => start(settings))
    expect((await post(running, [track('m')], `key-${EACH - 1}`)).status).toBe(200)
    for (let i = 0; i < 5; i++) {
      const rotate = () => ask(running, 'POST', `/sources/s${i}/rotation`)
      const { body } = await measured('rotation', rotate)
      const { writeKey = '' } = body.generated
      expect((await post(running, [track('m')], writeKey)).status).toBe(200)
      expect((await post(running, [track('m')], `key-${i}`)).status).toBe(200)
    }
    const { body } = await ask(running, 'GET', `/destinations?q=e${EACH - 1}.&limit=10`)
    expect(body).toMatchObject({ total: 1, items: [{ name: `d${EACH - 1}` }] })
    console.log(lines.join('; '))
  },
)
