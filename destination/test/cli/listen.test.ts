import { signWebhook } from 'hookline/webhook'
import { describe, expect, test } from 'vitest'
import { arrivalLine } from '../../src/cli/listen.js'
import type { Arrival } from '../../src/cli/receiver.js'
import { folderWith, start, type Running } from './process.js'

const SECRET = 'hush'
const TRACK = '{"type":"track","version":1,"userId":"u1","event":"Order Completed"}'

/** The URL that the command prints. */
async function urlOf(receiver: Running): Promise<string> {
  const [, url = ''] = await receiver.printed(/Listening on (http:\S+)\./)
  return url
}

async function post(url: string, body: string, headers: Record<string, string>): Promise<number> {
  return (await fetch(url, { method: 'POST', body, headers })).status
}

const signed = (body: string, secret = SECRET) => ({ 'X-Signature': signWebhook(secret, body) })

const parse = (stdout: string) =>
  stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Arrival)

describe.concurrent('listen', () => {
  test('tells right signatures from wrong and missing ones, and ends with 1', async ({
    expect,
  }) => {
    const receiver = start(['listen', '--port', '0', '--json', '--count', '5'], {
      env: { HOOKLINE_SECRET: SECRET },
    })
    const url = await urlOf(receiver)
    await post(url, TRACK, { ...signed(TRACK), 'X-Message-Id': 'm1', 'X-Attempt': '2' })
    await post(url, TRACK, signed(TRACK, 'another'))
    await post(url, TRACK, {})
    await post(url, `${TRACK} `, signed(TRACK))
    await post(url, 'no JSON', signed('no JSON'))
    const { code, stdout, stderr } = await receiver.ended
    expect(code).toBe(1)
    expect(stderr).toMatch(
      /Signatures are checked with HOOKLINE_SECRET\.[^]*wrong or missing signature: 3\.\n$/,
    )
    const arrivals = parse(stdout)
    expect(arrivals.map(({ signature }) => signature)).toEqual([
      'ok',
      'wrong',
      'missing',
      'wrong',
      'ok',
    ])
    expect(arrivals[0]).toEqual({
      at: expect.stringMatching(/^\d{4}-.*Z$/) as string,
      path: '/',
      signature: 'ok',
      type: 'track',
      user: 'u1',
      event: 'Order Completed',
      messageId: 'm1',
      attempt: 2,
      bytes: TRACK.length,
      status: 200,
    })
    const reasons = arrivals.map(({ reason }) => reason)
    expect(reasons[1]).toMatch(/Check that the secret is the destination's sharedSecret/)
    expect(reasons[2]).toMatch(/^Expected an X-Signature header, got none/)
    expect(reasons[3]).toMatch(/something reformatted the body/)
    expect(reasons[4]).toMatch(/^Expected a JSON object with a type/)
    expect(stdout + stderr).not.toContain(SECRET)
  })

  test('answers the attempts of each message by the script, and ends with 0', async ({
    expect,
  }) => {
    const receiver = start('listen --port 0 --status 500,503,200 --count 6 --verbose'.split(' '))
    const url = await urlOf(receiver)
    const statuses: number[] = []
    for (const id of ['a', 'b', 'a', 'a', 'b', 'a']) {
      statuses.push(await post(url, TRACK, { 'X-Message-Id': id }))
    }
    expect(statuses).toEqual([500, 500, 503, 200, 503, 200])
    const { code, stdout, stderr } = await receiver.ended
    expect(code).toBe(0)
    expect(stderr).toContain('Signatures are not checked. Give --secret to check them.')
    const lines = stdout.trimEnd().split('\n')
    expect(lines[2]).toMatch(
      /track "Order Completed" {2}user u1 {2}signature not checked {2}\d+ bytes {2}b {2}→ 500$/,
    )
    expect(lines[3]).toBe(`    ${TRACK}`)
  })

  test('checks with the secrets of the settings beside it, and answers a GET with 405', async ({
    expect,
  }) => {
    const webhooks = [{ url: 'http://127.0.0.1:4000/' }]
    const folder = folderWith({
      sources: [{ name: 'web', writeKey: 'k' }],
      destinations: [
        { name: 'one', sources: ['web'], sharedSecret: 'first', webhooks },
        { name: 'two', sources: ['web'], sharedSecret: 'second', webhooks },
        { name: 'unsigned', sources: ['web'], webhooks },
      ],
    })
    const receiver = start(['listen', '--port', '0', '--count', '2'], { folder })
    const url = await urlOf(receiver)
    expect((await fetch(url)).status).toBe(405)
    await post(url, TRACK, signed(TRACK, 'first'))
    await post(url, TRACK, signed(TRACK, 'second'))
    const { code, stderr } = await receiver.ended
    expect(code).toBe(0)
    expect(stderr).toContain('checked with the secret of one, two in hookline.config.json.')
  })

  test('goes on without the settings beside it if these are wrong, and says why', async ({
    expect,
  }) => {
    const receiver = start(['listen', '--port', '0', '--count', '1'], { folder: folderWith('{') })
    await post(await urlOf(receiver), TRACK, {})
    const { code, stderr } = await receiver.ended
    expect(code).toBe(0)
    expect(stderr).toMatch(
      /not checked\. Give --secret to check them\.\n\(hookline\.config\.json: line 1, column 2: /,
    )
  })
})

test('a line of what arrived has no control character of the sender', () => {
  const line = arrivalLine(
    {
      at: '2026-11-21T12:34:56.000Z',
      path: '/',
      signature: 'wrong',
      reason: 'Expected\u009b another.',
      type: 'tr\u001b[2Jack',
      user: 'u\n1',
      event: '\u001b]0;x\u0007',
      messageId: 'm\r1',
      attempt: 3,
      bytes: 7,
      status: 500,
      body: '',
    },
    false,
  )
  expect(line).not.toMatch(/[^\P{Cc}\n]/u)
  expect(line.split('\n')).toEqual([
    '12:34:56  tr\\u001b[2Jack "\\u001b]0;x\\u0007"  user u\\n1  signature WRONG  attempt 3  7 bytes  m\\r1  → 500',
    '    Expected\\u009b another.',
  ])
})
