// The file of the store is removed while a destination runs.
import { renameSync, rmSync } from 'node:fs'
import { dirname } from 'node:path'
import { expect, test } from 'vitest'
import type { RunningDestination } from '../src/destination.js'
import type { Log } from '../src/observe/log.js'
import { sqlitePath } from '../src/store/kind.js'
import { parseScrape } from './observe/scrape.js'
import {
  ADMIN_TOKEN,
  destination,
  endpoint,
  post,
  settingsFor,
  silent,
  start,
  track,
} from './run.js'

async function healthOf(running: RunningDestination) {
  const readiness = await fetch(`${running.url}/readyz`)
  const headers = { Authorization: `Bearer ${ADMIN_TOKEN}` }
  const metrics = await (await fetch(`${running.adminUrl}/metrics`, { headers })).text()
  const { reasons = [] } = (await readiness.json()) as { reasons?: { code: string }[] }
  return [
    readiness.status,
    reasons.map(({ code }) => code),
    parseScrape(metrics).get('hookline_store_up'),
  ]
}

test('it takes no calls and says so, delivers what it has, and goes on when the file is back', async () => {
  const held: (() => void)[] = []
  const crm = await endpoint((response) => {
    held.push(() => response.writeHead(204).end())
  })
  const settings = settingsFor([destination([crm])])
  settings.destinations[0]?.webhooks.forEach((webhook) => (webhook.concurrency = 1))
  const lines: [string, unknown, string][] = []
  const note = (level: string) => (details: object, message: string) => {
    lines.push([level, details, message])
  }
  const log: Log = { ...silent, error: note('error'), warn: note('warn') }
  const running = await start(settings, log)
  expect((await post(running, [track('m1'), track('m2')])).status).toBe(200)
  await crm.has(1)
  expect(await healthOf(running)).toEqual([200, [], 1])

  const path = sqlitePath(settings.store as string)
  const away = `${dirname(path)}-away`
  renameSync(dirname(path), away)
  for (let n = 0; n < 3; n++) {
    const refused = await post(running, [track(`refused${n}`)])
    expect(refused.status).toBe(503)
    expect(await refused.json()).toMatchObject({ code: 'store_unavailable' })
  }
  expect(await healthOf(running)).toEqual([503, ['store_unavailable'], 0])
  expect(lines).toEqual([
    [
      'error',
      {
        error: expect.stringMatching(`${path} was removed or replaced`) as unknown,
      },
      'the store takes no calls; clients get the answer 503',
    ],
  ])
  // What it has is delivered.
  held[0]?.()
  await crm.has(2)
  held[1]?.()

  renameSync(away, dirname(path))
  expect((await post(running, [track('m3')])).status).toBe(200)
  await crm.has(3)
  held[2]?.()
  expect(await healthOf(running)).toEqual([200, [], 1])
  expect(lines.slice(1)).toEqual([['warn', {}, 'the store takes calls again']])
  rmSync(away, { recursive: true, force: true })
})

test('its removal is logged also if no call comes', { tags: 'long' }, async () => {
  const settings = settingsFor([])
  const errors: string[] = []
  const error = (_details: object, message: string) => errors.push(message)
  await start(settings, { ...silent, error })
  const path = sqlitePath(settings.store as string)
  renameSync(path, `${path}-away`)
  await expect.poll(() => errors).toEqual(['the store takes no calls; clients get the answer 503'])
})
