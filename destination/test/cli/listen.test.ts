// @module-tag long
import { signWebhook } from 'hookline/webhook'
import { describe, expect, test } from 'vitest'
import type { Arrival } from '../../src/cli/listen/receiver.js'
import { arrivalLines, COLUMN_WIDTHS } from '../../src/cli/listen/show.js'
import { createColumns } from '../../src/cli/table.js'
import { startEndpoint } from '../endpoint.js'
import { folderWith, run, start, type Running } from './process.js'

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
    const bodyLines = JSON.stringify(JSON.parse(TRACK), null, 2).split('\n')
    expect(lines[bodyLines.length + 1]).toMatch(
      /track "Order Completed" +user u1 +signature not checked +\d+ bytes +→ 500 +b$/,
    )
    expect(lines.slice(1, bodyLines.length + 1)).toEqual(bodyLines.map((line) => `    ${line}`))
  })

  test('gives the requests of one attempt the same status, whatever the number of the attempt is', async ({
    expect,
  }) => {
    const receiver = start('listen --port 0 --status 500,503,200 --count 9 --json'.split(' '))
    const url = await urlOf(receiver)
    const statuses: number[] = []
    for (const attempt of [3, 3, 4, 3, 5, 4, 6, 5, 3]) {
      const headers = { 'X-Message-Id': 'a', 'X-Attempt': String(attempt) }
      statuses.push(await post(url, TRACK, headers))
    }
    expect(statuses).toEqual([500, 500, 503, 500, 200, 503, 200, 200, 500])
    expect((await receiver.ended).code).toBe(0)
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

  test('forwards each request with its headers and bytes, and answers as the receiver does', async ({
    expect,
  }) => {
    await using own = await startEndpoint([(response) => response.writeHead(418).end('short')])
    const args = ['listen', '--port', '0', '--count', '1', '--forward-to', own.url]
    const receiver = start(args, { env: { HOOKLINE_SECRET: SECRET } })
    const response = await fetch(await urlOf(receiver), {
      method: 'POST',
      body: TRACK,
      headers: { ...signed(TRACK), 'X-Message-Id': 'm1', 'Content-Type': 'application/json' },
    })
    expect([response.status, await response.text()]).toEqual([418, 'short'])
    expect(own.received).toMatchObject([
      {
        body: TRACK,
        headers: {
          'x-signature': signWebhook(SECRET, TRACK),
          'x-message-id': 'm1',
          'content-type': 'application/json',
        },
      },
    ])
    const { code, stdout } = await receiver.ended
    expect({ code, stdout }).toEqual({
      code: 0,
      stdout: expect.stringMatching(/→ 418 +m1\n$/) as string,
    })
  })

  test('answers 502 and says why if nobody runs where it forwards to', async ({ expect }) => {
    const gone = await startEndpoint()
    await gone[Symbol.asyncDispose]()
    const receiver = start(['listen', '--port', '0', '--count', '1', '--forward-to', gone.url])
    expect(await post(await urlOf(receiver), TRACK, {})).toBe(502)
    expect((await receiver.ended).stdout).toContain(
      `\n    No answer from ${gone.url} (ECONNREFUSED). Check that your receiver runs there.\n`,
    )
  })

  test('prints, forwards and counts only what its filter names, and answers the rest with 200', async ({
    expect,
  }) => {
    const args = ['listen', '--port', '0', '--count', '1', '--status', '500', '--json']
    const receiver = start([...args, '--type', 'track', '--event', 'Order Completed'])
    const url = await urlOf(receiver)
    const other = TRACK.replace('Completed', 'Started')
    const group = '{"type":"group","groupId":"Order Completed"}'
    expect(await post(url, other, {})).toBe(200)
    expect(await post(url, group, {})).toBe(200)
    expect(await post(url, TRACK, {})).toBe(500)
    expect(parse((await receiver.ended).stdout)).toMatchObject([{ event: 'Order Completed' }])
  })

  test('refuses --forward-to with --status, because only one of them can answer', async ({
    expect,
  }) => {
    const args = 'listen --port 0 --status 500 --forward-to http://127.0.0.1:1/'
    expect(await run(args.split(' '))).toMatchObject({
      code: 2,
      stderr: 'Give --forward-to or --status: the receiver there answers.\n',
    })
  })
})

const ARRIVAL: Arrival = {
  at: '2026-11-21T12:34:56.000Z',
  path: '/',
  signature: 'ok',
  type: 'track',
  user: 'u1',
  event: 'Signed Up',
  messageId: 'm1',
  attempt: 3,
  bytes: 7,
  status: 200,
  body: '',
}

test('a line of what arrived has no control character of the sender', () => {
  const arrival: Arrival = {
    ...ARRIVAL,
    signature: 'wrong',
    reason: 'Expected\u009b another.',
    type: 'tr\u001b[2Jack',
    user: 'u\n1',
    event: '\u001b]0;x\u0007',
    messageId: 'm\r1',
    status: 500,
  }
  const lines = arrivalLines(arrival, createColumns([]), false)
  expect(lines.join('\n')).not.toMatch(/[^\P{Cc}\n]/u)
  expect(lines).toEqual([
    '12:34:56  tr\\u001b[2Jack "\\u001b]0;x\\u0007"  user u\\n1  ✗ WRONG SIGNATURE  attempt 3  7 bytes  → 500  m\\r1',
    '    Expected\\u009b another.',
  ])
})

test('the lines of what arrived have their columns at the same places', () => {
  const columns = createColumns(COLUMN_WIDTHS)
  const arrivals: Arrival[] = [
    { ...ARRIVAL, event: 'Order Completed Twice', user: 'a-longer-user' },
    { ...ARRIVAL, signature: 'missing', bytes: 1_234 },
    { ...ARRIVAL, type: 'page', bytes: 34_567 },
  ]
  const lines = arrivals.flatMap((arrival) => arrivalLines(arrival, columns, false))
  for (const word of [/user /, /signature|SIGNATURE/, /attempt/, /→/, /m1/]) {
    const places = lines.slice(1).map((line) => line.search(word))
    expect(new Set(places).size, String(word)).toBeLessThanOrEqual(
      word.source.includes('S') ? 2 : 1,
    )
  }
})

test('a wrong signature is in red from end to end, and its mark is inverted', () => {
  const wrong: Arrival = { ...ARRIVAL, signature: 'wrong', reason: 'Another secret.' }
  const [line = '', reason = ''] = arrivalLines(wrong, createColumns([]), true)
  expect(line).toContain('\u001b[41m')
  expect([line, reason].map((text) => text.startsWith('\u001b[31m'))).toEqual([true, true])
})
