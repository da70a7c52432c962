// @module-tag long
import { once } from 'node:events'
import { request, type IncomingMessage, type ServerResponse } from 'node:http'
import { connect } from 'node:net'
import { signWebhook } from 'hookline/webhook'
import { describe, expect, test } from 'vitest'
import type { Arrival } from '../../src/cli/listen/receiver.js'
import { arrivalLines, COLUMN_WIDTHS } from '../../src/cli/listen/show.js'
import { createColumns } from '../../src/cli/table.js'
import { startEndpoint } from '../endpoint.js'
import { folderWith, run, start, type Running } from './process.js'

const SECRET = 'hush'
const TRACK = '{"type":"track","version":1,"userId":"u1","event":"Order Completed"}'

const ALIAS = '{"type":"alias","version":1,"Previous ID":"p","User ID":"u1"}'

/** The URL that the command prints. */
async function urlOf(receiver: Running): Promise<string> {
  const [, url = ''] = await receiver.printed(/Listening on (http:\S+)\./)
  return url
}

async function post(url: string, body: string, headers: Record<string, string>): Promise<number> {
  return (await fetch(url, { method: 'POST', body, headers })).status
}

const signed = (body: string, secret = SECRET) => ({ 'X-Signature': signWebhook(secret, body) })

/** Sends a whole request, and hangs up without waiting for its answer. */
async function hangUp(url: string, body: string): Promise<void> {
  const { hostname, port } = new URL(url)
  const socket = connect(Number(port), hostname)
  const lines = ['POST / HTTP/1.1', 'Host: x', `Content-Length: ${body.length}`, '', body]
  socket.write(lines.join('\r\n'), () => socket.destroy())
  await once(socket, 'close')
}

const parse = (stdout: string) =>
  stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Arrival)

/** The pairs of names and values of headers, in an order of their own. */
const pairs = (headers: readonly string[]) =>
  headers.flatMap((name, i) => (i % 2 === 0 ? [`${name}: ${headers[i + 1] ?? ''}`] : [])).sort()

describe.concurrent('listen', () => {
  test('tells right signatures from wrong and missing ones, and ends with 1', async ({
    expect,
  }) => {
    const receiver = start(['listen', '--port', '0', '--json', '--count', '5'], {
      env: { HOOKLINE_SECRET: SECRET },
    })
    const url = await urlOf(receiver)
    const first = { ...signed(TRACK), 'X-Message-Id': 'm1', 'X-Attempt': '2' }
    const statuses = [
      await post(url, TRACK, first),
      await post(url, TRACK, signed(TRACK, 'another')),
      await post(url, TRACK, {}),
      await post(url, `${TRACK} `, signed(TRACK)),
      await post(url, 'no JSON', signed('no JSON')),
    ]
    expect(statuses).toEqual([200, 401, 401, 401, 200])
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

  test('answers a wrong signature as --status says, if it says so', async ({ expect }) => {
    const args = ['listen', '--port', '0', '--count', '1', '--secret', SECRET, '--status', '200']
    const receiver = start(args)
    expect(await post(await urlOf(receiver), TRACK, {})).toBe(200)
    const { code, stdout } = await receiver.ended
    expect(code).toBe(1)
    expect(stdout).toMatch(/✗ NO SIGNATURE .+ → 200\n/)
  })

  test('is a receiver with which doctor finds nothing wrong', async ({ expect }) => {
    const receiver = start(['listen', '--port', '0', '--count', '2', '--secret', SECRET])
    const folder = folderWith({
      sources: [{ name: 'web', writeKey: 'k' }],
      destinations: [],
      allowNetworks: ['127.0.0.1'],
    })
    const doctor = await run(['doctor', await urlOf(receiver), '--secret', SECRET], { folder })
    expect(doctor.stdout).toContain('and refuses a wrong signature (401).')
    expect(doctor.code).toBe(0)
    expect((await receiver.ended).stdout).toMatch(/signature ok .+ → 200 .+\n.+ → 401 /)
  })

  test('checks no signatures of Standard Webhooks, and says so', async ({ expect }) => {
    const webhooks = [{ url: 'http://127.0.0.1:4000/' }]
    const webhookSecret = `whsec_${Buffer.alloc(24, 1).toString('base64')}`
    const standard = { name: 'one', sources: ['web'], webhookSecret, webhooks }
    const folder = folderWith({
      sources: [{ name: 'web', writeKey: 'k' }],
      destinations: [standard],
    })
    const receiver = start(['listen', '--port', '0', '--count', '1', '--json'], { folder })
    const headers = { 'webhook-signature': 'v1,abc' }
    expect(await post(await urlOf(receiver), TRACK, headers)).toBe(200)
    const { stderr } = await receiver.ended
    expect(stderr).toContain(
      'Signatures are not checked. hookline.config.json has only webhookSecret, for Standard Webhooks.',
    )
    expect(stderr).not.toContain('--secret')

    const both = start(['listen', '--port', '0', '--count', '1', '--json', '--secret', SECRET])
    expect(await post(await urlOf(both), TRACK, headers)).toBe(200)
    expect(parse((await both.ended).stdout)).toMatchObject([{ signature: 'unchecked' }])
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

  test('forwards the headers as they came, and gives back those of the answer', async ({
    expect,
  }) => {
    const answered = [
      ...['Retry-After', '7', 'Location', '/elsewhere', 'Set-Cookie', 'a=1', 'Set-Cookie', 'b=2'],
      ...['Content-Encoding', 'gzip', 'Date', 'Thu, 26 Nov 2026 00:00:00 GMT'],
    ]
    await using own = await startEndpoint([
      (response) =>
        response.writeHead(307, [...answered, 'Connection', 'X-Own', 'X-Own', '1']).end(),
    ])
    const receiver = start(['listen', '--port', '0', '--count', '1', '--forward-to', own.url])
    const sent = ['User-Agent', 'Service.io/1.0', 'X-Message-Id', 'm1', 'x-two', '1', 'x-two', '2']
    const length = ['Content-Length', String(TRACK.length)]
    const ofConnection = ['Host', 'x', 'Connection', 'close, X-Hop', 'X-Hop', '1', 'TE', 'trailers']
    const asked = request(await urlOf(receiver), {
      method: 'POST',
      headers: [...ofConnection, ...sent, ...length],
    })
    const [answer] = (await once(asked.end(TRACK), 'response')) as [IncomingMessage]
    answer.resume()
    const { host } = new URL(own.url)
    const { rawHeaders = [], headers } = own.received[0] ?? {}
    expect(headers?.host).toBe(host)
    expect(pairs(rawHeaders)).toEqual(
      pairs([...sent, ...length, 'Host', host, 'Connection', 'close']),
    )
    expect(answer.statusCode).toBe(307)
    expect(pairs(answer.rawHeaders)).toEqual(
      pairs([...answered, 'Connection', 'close', 'Transfer-Encoding', 'chunked']),
    )
    expect((await receiver.ended).code).toBe(0)
  })

  test('says that the sender hung up if it did so before the answer, and lets go of the receiver', async ({
    expect,
  }) => {
    const answers: ServerResponse[] = []
    await using own = await startEndpoint([(response) => answers.push(response)])
    const args = ['listen', '--port', '0', '--count', '1', '--forward-to', own.url]
    const receiver = start(args)
    const sender = new AbortController()
    const sent = fetch(await urlOf(receiver), {
      method: 'POST',
      body: TRACK,
      signal: sender.signal,
    })
    const failed = expect(sent).rejects.toThrow()
    await own.has(1)
    const [answer] = answers
    const letGo = answer && once(answer, 'close')
    sender.abort()
    await failed
    await letGo
    expect((await receiver.ended).stdout).toMatch(
      /→ none\n {4}The sender hung up after \d+\.\d s, before the answer was sent\.\n$/,
    )
  })

  test('ends after --count requests also if their senders hung up', async ({ expect }) => {
    const args = ['listen', '--port', '0', '--count', '2', '--delay', '3600000', '--json']
    const receiver = start(args)
    const url = await urlOf(receiver)
    await hangUp(url, TRACK)
    await hangUp(url, TRACK)
    const { code, stdout } = await receiver.ended
    expect(code).toBe(0)
    const arrivals = parse(stdout)
    expect(arrivals).toHaveLength(2)
    for (const arrival of arrivals) {
      expect(arrival).not.toHaveProperty('status')
      expect(arrival.unanswered).toMatch(/^The sender hung up after /)
    }
  })

  test('takes no request beyond --count while it answers the last one', async ({ expect }) => {
    let answer = () => undefined as unknown
    await using own = await startEndpoint([(response) => (answer = () => response.end()), 204])
    const args = ['listen', '--port', '0', '--count', '1', '--json', '--forward-to', own.url]
    const receiver = start([...args, '--type', 'track'])
    const url = await urlOf(receiver)
    const first = post(url, TRACK, {})
    await own.has(1)
    await hangUp(url, TRACK)
    expect(await post(url, ALIAS, {})).toBe(200)
    answer()
    expect(await first).toBe(200)
    expect(parse((await receiver.ended).stdout)).toMatchObject([{ status: 200 }])
    expect(own.received).toHaveLength(1)
  })

  test('counts an alias as of its new user', async ({ expect }) => {
    const args = ['listen', '--port', '0', '--count', '2', '--status', '500', '--user', 'u1']
    const receiver = start([...args, '--json'])
    const url = await urlOf(receiver)
    const anonymous = ALIAS.replace('}', ',"anonymousId":"a1"}')
    const other = ALIAS.replace('u1', 'u2').replace('"p"', '"u1"')
    const statuses: number[] = []
    for (const body of [other, ALIAS, anonymous]) statuses.push(await post(url, body, {}))
    expect(statuses).toEqual([200, 500, 500])
    expect(parse((await receiver.ended).stdout)).toMatchObject([
      { user: 'u1', previousId: 'p' },
      { user: 'u1', previousId: 'p' },
    ])
  })

  test('answers 502 and says why if nobody runs where it forwards to', async ({ expect }) => {
    // fetch refuses this port, and listen does not.
    const gone = 'http://127.0.0.1:1/'
    const receiver = start(['listen', '--port', '0', '--count', '1', '--forward-to', gone])
    expect(await post(await urlOf(receiver), TRACK, {})).toBe(502)
    expect((await receiver.ended).stdout).toContain(
      `\n    No answer from ${gone} (ECONNREFUSED). Check that your receiver runs there.\n`,
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

test('an alias is shown with both of its ids', () => {
  const arrival: Arrival = { ...ARRIVAL, type: 'alias', previousId: 'p' }
  expect(arrivalLines(arrival, createColumns([]), false).join('')).toContain('  user p → u1  ')
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
