// @module-tag long
// The commands that show what a running destination does.
import { renameSync } from 'node:fs'
import type { ServerResponse } from 'node:http'
import { dirname } from 'node:path'
import { describe, expect, test } from 'vitest'
import type { DeliveryList, Status } from '../../src/model/answers.js'
import { sqlitePath } from '../../src/store/kind.js'
import {
  ADMIN_TOKEN,
  destination,
  endpoint,
  freePort,
  post,
  settingsFor,
  start,
  track,
} from '../run.js'
import { runInside } from './inside.js'
import { run, start as startCommand } from './process.js'

const TRACK = ['send', 'track', '--event', 'E', '--user', 'u1']

const where = (url: string) => ['--url', url, '--token', ADMIN_TOKEN]

/** A destination with one endpoint that gives every message the same answer. */
async function serving(status: number) {
  const crm = await endpoint(status)
  const one = await start(settingsFor([destination([crm])]))
  const cli = (...args: string[]) => runInside([...args, ...where(one.adminUrl)])
  const settled = async () => {
    const isSettled = async () => (await one.stats()).every(({ oldestMs }) => oldestMs === 0)
    while (!(await isSettled())) await new Promise((resolve) => setTimeout(resolve, 5))
  }
  return { crm, one, cli, settled }
}

describe('status', () => {
  test('shows what waits for each destination, and what each endpoint answers', async () => {
    const { crm, one, cli, settled } = await serving(422)
    await post(one, [track('a'), track('b')])
    await settled()
    const { code, stdout } = await cli('status')
    expect(code).toBe(0)
    const lines = stdout.split('\n')
    expect(lines).toContain('web     2         0')
    expect(lines).toContain('crm          0        0        2     -       -')
    expect(stdout).toMatch(new RegExp(`${crm.url} +crm +closed +0 +2 +\\d+ ms +\\d+ ms\\n`))
    expect(stdout).toMatch(/Last failure of .*Z {2}422 client_error\n {2}The endpoint answered 422/)
    const json = JSON.parse((await cli('status', '--json')).stdout) as Status
    expect(json.destinations).toMatchObject([{ name: 'crm', dead: 2 }])
  })

  test('says so if the store takes no calls', async () => {
    const crm = await endpoint()
    const settings = settingsFor([destination([crm])])
    const one = await start(settings)
    const cli = (...args: string[]) => runInside([...args, ...where(one.adminUrl)])
    const reason = 'The store takes no calls, because it is full or fails. The log has the error.'
    expect((await cli('status')).stdout).not.toContain(reason)
    const folder = dirname(sqlitePath(settings.store as string))
    renameSync(folder, `${folder}-away`)
    expect((await post(one, [track('a')])).status).toBe(503)
    const { stdout } = await cli('status')
    expect(stdout.split('\n')[1]).toBe(reason)
    expect(stdout).toMatch(/\nweb +0 +0\n/) // the call was refused for now, not for good
    const { reasons } = (await (await fetch(`${one.url}/readyz`)).json()) as { reasons: object[] }
    expect(reasons).toEqual([{ code: 'store_unavailable', message: reason }])
    const json = JSON.parse((await cli('status', '--json')).stdout) as Status
    expect(json.storeProblem).toBe(reason)
    renameSync(`${folder}-away`, folder)
  })

  test('without the token is 1, with the fix in JSON too', async () => {
    const { one } = await serving(204)
    const { code, stdout } = await runInside(['status', '--url', one.adminUrl, '--json'])
    expect(code).toBe(1)
    expect(JSON.parse(stdout)).toMatchObject({
      error: {
        code: 'no_admin_token',
        message: expect.stringContaining('Give the token with --token') as string,
      },
    })
  })
})

describe('list', () => {
  test('shows the newest deliveries that its filters name, and how to continue', async () => {
    const { one, cli, settled } = await serving(422)
    await post(one, [track('a'), track('b', { event: 'Order Completed' }), track('c')])
    await settled()
    const all = await cli('list', '--limit', '2')
    const [header = '', first = '', second = ''] = all.stdout.split('\n')
    expect(header).toMatch(/^ID +ACCEPTED +STATE +LAST ANSWER +WHAT +USER +DESTINATION +MESSAGE$/)
    expect(first).toMatch(/^3 +\S+ \S+Z +dead +422 client_error +track "Signed Up" +u1 +crm +c$/)
    expect(first.indexOf('dead')).toBe(header.indexOf('STATE'))
    expect(second).toMatch(/ b$/)
    expect(all.stderr).toBe('There are more. Continue with --before 2.\n')
    expect((await cli('list', '--before', '2')).stdout).toMatch(/\n1 .* a\n$/)

    const filter = ['--state', 'dead', '--destination', 'crm', '--event', 'Order Completed']
    const json = await cli('list', ...filter, '--user', 'u1', '--json')
    const { deliveries } = JSON.parse(json.stdout) as DeliveryList
    expect(deliveries.map(({ messageId }) => messageId)).toEqual(['b'])
    const refused = await cli('list', '--status', '4xx', '--code', 'client_error', '--since', '1h')
    expect(refused.stdout.trim().split('\n')).toHaveLength(4)
    const minuteAgo = new Date(Date.now() - 60_000)
      .toISOString()
      .slice(0, 'yyyy-mm-ddThh:mm:ss'.length)
    const elsewhere = await run(['list', '--since', minuteAgo, ...where(one.adminUrl)], {
      env: { TZ: 'America/New_York' },
    })
    expect(elsewhere.stdout.trim().split('\n')).toHaveLength(4)
    expect((await cli('list', '--status', '5xx')).stdout).toBe('No delivery matches.\n')
    expect(await cli('list', '--status', 'bad')).toMatchObject({
      code: 2,
      stderr: 'status must be a status such as 503 or a class such as 5xx, got "bad".\n',
    })
    expect(await cli('list', '--message', 'none')).toEqual({
      code: 0,
      stdout: 'No delivery matches.\n',
      stderr: '',
    })
  })
})

describe('tail', () => {
  test('prints calls and attempts as they happen, in lines or as JSON', async () => {
    const { one } = await serving(422)
    const commands = [
      startCommand(['tail', '--count', '2', ...where(one.adminUrl)]),
      startCommand(['tail', '--event', 'Wanted', '--count', '1', ...where(one.adminUrl)]),
      startCommand(['tail', '--failed', '--count', '1', '--json', ...where(one.adminUrl)]),
    ]
    await Promise.all(commands.map((command) => command.printed(/Connected\./)))
    await post(one, [track('m1', { event: 'Other' })])
    const [both, failed] = await Promise.all([commands[0]?.ended, commands[2]?.ended])
    await post(one, [track('m2', { event: 'Wanted' })])
    const wanted = await commands[1]?.ended

    expect(both?.code).toBe(0)
    const lines = both?.stdout.trim().split('\n') ?? []
    expect(lines[0]).toMatch(/^\d\d:\d\d:\d\d {2}call {5}track "Other" +from web +m1 +user u1$/)
    expect(lines[1]).toMatch(
      /^\d\d:\d\d:\d\d {2}attempt {2}422 client_error +to crm +m1 +attempt 1 {2}\d+ ms {2}dead/,
    )
    expect(wanted?.stdout).toMatch(/^\S+ {2}call {5}track "Wanted" .* m2 .*\n$/)
    expect(JSON.parse(failed?.stdout ?? '')).toMatchObject({
      kind: 'attempt',
      messageId: 'm1',
      code: 'client_error',
    })
  })

  test('prints a call with line separators of Unicode', async () => {
    const { one } = await serving(204)
    const tail = startCommand(['tail', '--only', 'calls', '--count', '1', ...where(one.adminUrl)])
    await tail.printed(/Connected\./)
    await post(one, [track('m1', { event: 'line\u2028paragraph\u2029end' })])
    await post(one, [track('m2')])
    expect((await tail.ended).stdout).toContain('track "line\\u2028paragraph\\u2029end" ')
  })

  test('ends with 3 if the destination ends', async () => {
    const { one } = await serving(204)
    const tail = startCommand(['tail', ...where(one.adminUrl)])
    await tail.printed(/Connected\./)
    await one.close()
    const { code, stderr } = await tail.ended
    expect(code).toBe(3)
    expect(stderr).toContain('The destination has ended the connection.\n')
  })
})

test.each(['list', 'tail'])('%s says which destinations and sources there are', async (command) => {
  const { one, cli } = await serving(204)
  await post(one, [track('a')])
  for (const [flag, stderr] of [
    ['--destination', 'There is no destination "crn". Known destinations: crm.\n'],
    ['--source', 'There is no source "crn". Known sources: web.\n'],
  ] as const) {
    expect(await cli(command, flag, 'crn')).toEqual({ code: 2, stdout: '', stderr })
  }
})

describe('send --wait', () => {
  const send = (url: string, adminUrl: string, ...args: string[]) =>
    run([
      ...['send', 'track', '--event', 'E', '--user', 'u1', '--message-id', 'm1', '--wait'],
      ...['--key', 'web-key', '--to', url, ...where(adminUrl), ...args],
    ])

  test('prints each attempt, and is 0 once the message is delivered', async () => {
    const { one } = await serving(204)
    const { code, stdout } = await send(one.url, one.adminUrl)
    expect(code).toBe(0)
    expect(stdout).toMatch(/^Accepted m1: .*\n[^]*attempt 1 {2}204 delivered .*\n.*delivered\.\n$/)
  })

  test('is 1 for a dead letter, with its attempts in JSON', async () => {
    const { one } = await serving(422)
    const { code, stdout } = await send(one.url, one.adminUrl, '--json')
    expect(code).toBe(1)
    expect(JSON.parse(stdout)).toMatchObject({
      delivered: false,
      messageId: 'm1',
      deliveries: [{ state: 'dead', attempts: [{ status: 422 }] }],
    })
  })

  test('is 3 if the message still waits at the end of its time', async () => {
    const { one } = await serving(503)
    const { code, stdout, stderr } = await send(one.url, one.adminUrl, '--timeout', '1500')
    expect(code).toBe(3)
    expect(stdout).toContain('attempt 1  503 server_error')
    expect(stderr).toBe('It was not delivered within 1500 ms. The destination continues to try.\n')
  })

  test('looks only at the source of its key: another one may have the same id', async () => {
    const [no, ok] = [await endpoint(422), await endpoint(204)]
    const settings = settingsFor(
      [
        destination([no], { name: 'no' }),
        destination([ok], { name: 'ok', sources: ['shop', 'old'] }),
      ],
      {
        sources: [
          { name: 'web', writeKey: 'web-key' },
          { name: 'shop', writeKey: 'clé-100%' },
          { name: 'old', writeKey: 'former', otherWriteKey: 'next' },
        ],
      },
    )
    const one = await start(settings)
    expect(await send(one.url, one.adminUrl)).toMatchObject({ code: 1 })
    for (const [source, key] of [
      ['shop', 'clé-100%'],
      ['old', 'next'],
    ] as const) {
      const args = ['send', 'track', '--event', 'E', '--user', 'u2', '--message-id', 'm1', '--wait']
      const to = ['--key', key, '--to', one.url, ...where(one.adminUrl)]
      const { code, stdout } = await runInside([...args, ...to])
      expect({ code, deliveries: stdout.match(/from \S+ to \S+/g) }).toEqual({
        code: 0,
        deliveries: [`from ${source} to ok`],
      })
    }
  })

  test('sends nothing if the destination cannot be asked', async () => {
    const crm = await endpoint(204)
    const adminListen = { host: '127.0.0.1', port: 0 }
    const one = await start(settingsFor([destination([crm])], { adminListen }))
    const sending = (...args: string[]) =>
      runInside([...TRACK, '--key', 'web-key', '--to', one.url, '--wait', ...args])
    const wrong = await sending('--url', one.adminUrl, '--token', 'wrong')
    expect(wrong).toMatchObject({ code: 2, stdout: '' })
    expect(wrong.stderr).toMatch(/^The token of the request is neither .*\nNothing was sent\.\n$/)
    const atCollector = await sending(...where(one.url), '--json')
    expect(atCollector).toMatchObject({ code: 2, stderr: '' })
    expect(JSON.parse(atCollector.stdout)).toEqual({
      error: {
        code: 'not_found',
        message: expect.stringMatching(/^There is no route .*\nNothing was sent\.$/s) as string,
      },
    })
    const away = await sending(...where(`http://127.0.0.1:${await freePort()}`))
    expect(away).toMatchObject({ code: 3, stdout: '' })
    expect(away.stderr).toMatch(/^No answer from .*\nNothing was sent\.\n$/)
    expect(
      JSON.parse((await runInside(['list', '--json', ...where(one.adminUrl)])).stdout),
    ).toMatchObject({ deliveries: [] })
  })

  test.each(['', '--json'])(
    'is 3 with the id if an accepted message cannot be followed: %s',
    async (json) => {
      const held: ServerResponse[] = []
      const crm = await endpoint((response) => {
        held.push(response)
        void one.reload({ ...settings, adminToken: 'other-token-0123456789' })
      })
      const settings = settingsFor([destination([crm])])
      const one = await start(settings)
      const args = ['--key', 'web-key', '--to', one.url, '--wait', ...where(one.adminUrl)]
      const { code, stdout, stderr } = await runInside(
        [...TRACK, '--message-id', 'm1', ...args, json].filter(Boolean),
      )
      for (const response of held) response.writeHead(204).end()
      expect(code).toBe(3)
      const why = /^Its delivery could not be followed: The token of the request is neither/
      if (json) {
        expect(JSON.parse(stdout)).toEqual({
          delivered: false,
          messageId: 'm1',
          attempts: 1,
          error: { code: 'not_followed', message: expect.stringMatching(why) as string },
        })
      } else {
        expect(stdout).toMatch(/^Accepted m1: track "E" of u1, in \d+ ms\.\n$/)
        expect(stderr).toMatch(why)
      }
    },
  )

  test('is 3 if another destination is asked, which does not know the message', async () => {
    const [{ one }, { one: other }] = [await serving(204), await serving(204)]
    const { code, stdout, stderr } = await send(one.url, other.adminUrl, '--timeout', '1500')
    expect(code).toBe(3)
    expect(stdout).toMatch(/^Accepted m1: .*\n$/)
    expect(stderr).toMatch(/^Its delivery could not be followed: .* does not know the message\./)
  })
})
