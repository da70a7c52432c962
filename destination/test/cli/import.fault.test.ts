// Imports that are killed and go on.
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { test } from 'vitest'
import { toCall } from '../../src/cli/import/call.js'
import { openStore } from '../../src/store/open.js'
import { call, folderOf, progressOf } from './import/history.js'
import { run, start } from './process.js'

test('killed in the middle goes on there, and each line is stored once', async ({ expect }) => {
  const folder = folderOf(6_000, 4_321)
  const serving = start(['serve', '--no-pretty'], { folder })
  const [, url = ''] = await serving.printed(/"url":"([^"]+)"/)
  const args = ['import', 'history.ndjson', '--to', url]

  // It would take half a minute, so that it is not over before a slow machine kills it.
  const first = start([...args, '--rate', '200'], { folder })
  await expect.poll(() => progressOf(folder).line).toBeGreaterThan(200)
  first.kill('SIGKILL')
  await first.ended
  expect(progressOf(folder).line).toBeLessThan(4_000)

  const second = await run([...args, '--json', '--bad', 'bad.ndjson'], { folder })
  expect(second.stderr).toMatch(/^Continuing after line [\d,]+, where an earlier import stopped\./)
  expect(second.stderr).toContain('line 4321: not valid JSON: ')
  expect(second.code).toBe(1)
  expect(JSON.parse(second.stdout)).toMatchObject({ complete: true, bad: 1, toLine: 6_000 })
  expect(readFileSync(join(folder, 'bad.ndjson'), 'utf8')).toMatch(/^\{"line":4321,.*\}\n$/)

  const third = await run(args, { folder })
  expect(third.stderr).toContain('line 4321: not valid JSON: ')
  expect(third.stdout).toBe(
    'There are no new lines to import.\n' +
      'An earlier import of this file refused 1 line. Correct it, then import the whole file with --restart.\n',
  )
  expect(third.code).toBe(1)

  serving.kill('SIGTERM')
  await serving.ended
  const store = await openStore(`sqlite:${folder}/data/hookline.db`)
  const { count, rest } = await allOf(store)
  await store.close()
  expect([count, rest]).toEqual([5_999, 0])
})

test('the file of --bad has each refused line once, although the import was killed and continued', async ({
  expect,
}) => {
  await using collector = createServer((request, response) => {
    request.resume().once('end', () => response.end('{"success":true}'))
  }).listen(0, '127.0.0.1')
  await once(collector, 'listening')
  const { port } = collector.address() as AddressInfo
  const folder = folderOf(0, 0)
  const lines = Array.from({ length: 1_000 }, (_, i) => (i % 2 ? '{bad' : JSON.stringify(call(i))))
  writeFileSync(join(folder, 'history.ndjson'), `${lines.join('\n')}\n`)
  const where = ['--to', `http://127.0.0.1:${port}`, '--key', 'k', '--bad', 'refused']
  const args = ['import', 'history.ndjson', ...where]
  const first = start([...args, '--rate', '40'], { folder })
  await expect.poll(() => progressOf(folder).line).toBeGreaterThan(50)
  first.kill('SIGKILL')
  await first.ended
  expect(progressOf(folder).line).toBeLessThan(1_000)
  expect(await run(args, { folder })).toMatchObject({ code: 1 })
  const refused = readFileSync(join(folder, 'refused'), 'utf8').trim().split('\n')
  expect(refused.map((text) => (JSON.parse(text) as { line: number }).line)).toEqual(
    Array.from({ length: 500 }, (_, i) => 2 * i + 2),
  )
})

/** Counts the stored messages by the id that each line must have. `rest` counts those that are not skipped. */
async function allOf(store: Awaited<ReturnType<typeof openStore>>) {
  let [count, rest] = [0, 0]
  for (let line = 1; line <= 6_000; line++) {
    const text = JSON.stringify(call(line))
    const made = toCall({ line, text, fields: call(line) }, undefined, 'history.ndjson')
    const id = typeof made === 'string' ? '' : String(made.message['messageId'])
    const traces = await store.trace(id)
    count += traces.length
    rest += traces.filter(({ state }) => state !== 'skipped').length
  }
  return { count, rest }
}
