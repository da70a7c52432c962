// @module-tag long
import { createServer, type IncomingHttpHeaders } from 'node:http'
import type { AddressInfo } from 'node:net'
import { json } from 'node:stream/consumers'
import { describe, expect, test, type onTestFinished } from 'vitest'
import { runInside } from './inside.js'
import { folderWith, run } from './process.js'

interface Arrival {
  headers: IncomingHttpHeaders
  body: { batch: Record<string, unknown>[] }
}

/** Starts a collector that gives every request the same answer, or none if `reply` is left out. */
async function startCollector(
  atEnd: typeof onTestFinished,
  reply?: [status: number, body: string],
) {
  const collector = { arrivals: [] as Arrival[], reply }
  const server = createServer((request, response) => {
    void json(request).then((body) => {
      collector.arrivals.push({ headers: request.headers, body: body as Arrival['body'] })
      if (collector.reply) response.writeHead(collector.reply[0]).end(collector.reply[1])
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  atEnd(() => {
    server.closeAllConnections()
    server.close()
  })
  const { port } = server.address() as AddressInfo
  const address = `127.0.0.1:${port}`
  return Object.assign(collector, { address, url: `http://${address}` })
}

const OK: [number, string] = [200, '{"success":true}']
const TRACK = ['send', 'track', '--user', 'u1', '--event', 'Order Completed']

describe.concurrent('send', () => {
  test('delivers a call with all that it was given, and is 0', async ({
    expect,
    onTestFinished,
  }) => {
    const collector = await startCollector(onTestFinished, OK)
    const args = [
      ...TRACK,
      '--anonymous',
      'a1',
      '--properties',
      '{"total":42}',
      '--context',
      '{"ip":"::1"}',
    ]
    const more = [
      '--timestamp',
      '2026-01-01T00:00:00Z',
      '--message-id',
      'm1',
      '--integrations',
      '{"All":true}',
    ]
    const env = { HOOKLINE_WRITE_KEY: 'hush', ANALYTICS_ENDPOINT: collector.url }
    const { code, stdout, stderr } = await run([...args, ...more], { env })
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    expect(stdout).toMatch(/^Accepted m1: track "Order Completed" of u1, in \d+ ms\.\n$/)
    expect(collector.arrivals).toHaveLength(1)
    const [{ headers, body }] = collector.arrivals as [Arrival]
    expect(Buffer.from(headers.authorization?.slice(6) ?? '', 'base64').toString()).toBe('hush:')
    expect(body.batch).toEqual([
      {
        type: 'track',
        userId: 'u1',
        anonymousId: 'a1',
        event: 'Order Completed',
        properties: { total: 42 },
        context: expect.objectContaining({ ip: '::1' }) as object,
        integrations: { All: true },
        timestamp: '2026-01-01T00:00:00.000Z',
        messageId: 'm1',
      },
    ])
  })

  test('takes key and address from the settings beside it', async ({ expect, onTestFinished }) => {
    const collector = await startCollector(onTestFinished, OK)
    const folder = folderWith({
      listen: collector.address,
      sources: [{ name: 'web', writeKey: 'hush' }],
      destinations: [],
    })
    const { code, stdout } = await run(
      ['send', 'alias', '--user', 'u1', '--previous', 'v7', '--json'],
      { folder },
    )
    expect(code).toBe(0)
    expect(JSON.parse(stdout)).toEqual({
      delivered: true,
      messageId: collector.arrivals[0]?.body.batch[0]?.['messageId'],
      attempts: 1,
    })
    expect(collector.arrivals[0]?.body.batch[0]).toMatchObject({ type: 'alias', previousId: 'v7' })
  })

  test('says which number JavaScript cannot hold, and delivers the call', async ({
    expect,
    onTestFinished,
  }) => {
    const collector = await startCollector(onTestFinished, OK)
    const properties = '{"id":1234567890123456789}'
    const where = ['--key', 'hush', '--to', collector.url]
    const { code, stderr } = await run([...TRACK, ...where, '--properties', properties])
    expect({ code, stderr }).toEqual({
      code: 0,
      stderr:
        'properties.id: The number 1234567890123456789 is forwarded as 1234567890123456800, the closest number of JavaScript. Send it as a string to keep its value.\n',
    })
    expect(collector.arrivals).toHaveLength(1)
  })

  test('that is refused is 1, with the reason', async ({ expect, onTestFinished }) => {
    const collector = await startCollector(onTestFinished, [401, '{"message":"no such key"}'])
    const args = [...TRACK, '--key', 'hush', '--to', collector.url, '--message-id', 'm1']
    const { code, stdout, stderr } = await run(args)
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' })
    expect(stderr).toMatch(/^Not accepted: m1, track "Order Completed" of u1\.\n.*401.*\n$/)
  })

  test('that the answer names as refused is 1', async ({ expect, onTestFinished }) => {
    const rejected = [{ index: 0, code: 'invalid_message', message: 'it is odd' }]
    const collector = await startCollector(onTestFinished, [
      200,
      JSON.stringify({ success: true, rejected }),
    ])
    const { code, stdout } = await run([...TRACK, '--json', '--key', 'hush', '--to', collector.url])
    expect(code).toBe(1)
    expect(JSON.parse(stdout)).toMatchObject({
      delivered: false,
      error: {
        code: 'rejected',
        message: 'The endpoint refused this message: it is odd (invalid_message).',
      },
    })
  })

  test('tries until the time is over, however often that is', async ({
    expect,
    onTestFinished,
  }) => {
    const collector = await startCollector(onTestFinished, [503, ''])
    const args = [
      '--key',
      'hush',
      '--to',
      collector.url,
      '--timeout',
      '60000',
      '--message-id',
      'm1',
    ]
    const sending = run([...TRACK, ...args])
    await expect.poll(() => collector.arrivals.length).toBeGreaterThan(4)
    collector.reply = OK
    expect(await sending).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/^Accepted m1: .*, at attempt \d+\.\n$/) as string,
    })
  })

  test('that is not accepted in time is 3, and says what was answered last', async ({
    expect,
    onTestFinished,
  }) => {
    const collector = await startCollector(onTestFinished, [503, ''])
    const args = ['--key', 'hush', '--to', collector.url, '--timeout', '1500', '--message-id', 'm1']
    expect(await run([...TRACK, ...args])).toEqual({
      code: 3,
      stdout: '',
      stderr:
        'Not accepted: m1, track "Order Completed" of u1.\n' +
        'It was not accepted within 1500 ms. The last attempt failed: the endpoint answered 503. The call may or may not have arrived. ' +
        'The collector takes no calls now: its log and its /readyz say why. To send it again, add --message-id m1.\n',
    })
  })

  test('without an answer in time is 3', async ({ expect, onTestFinished }) => {
    const collector = await startCollector(onTestFinished)
    const args = ['--key', 'hush', '--to', collector.url, '--timeout', '300', '--message-id', 'm1']
    const ended = await run([...TRACK, ...args])
    expect(ended).toEqual({
      code: 3,
      stdout: '',
      stderr:
        'Not accepted: m1, track "Order Completed" of u1.\n' +
        'There was no answer within 300 ms. The call may or may not have arrived. To send it again, add --message-id m1.\n',
    })
  })
})

test.each([
  ['send', [...TRACK, '--to', 'http://127.0.0.1:1'], 'HOOKLINE_WRITE_KEY'],
  ['import', ['import', 'hookline.config.json', '--format', 'ndjson'], 'HOOKLINE_WRITE_KEY'],
  ['sign', ['sign', 'hookline.config.json'], 'HOOKLINE_SECRET'],
  ['status', ['status'], 'HOOKLINE_ADMIN_TOKEN'],
])(
  '%s takes no key of the settings while its variable is empty or not UTF-8',
  async (_command, args, name) => {
    const folder = folderWith({
      sources: [{ name: 'web', writeKey: 'hush' }],
      destinations: [
        {
          name: 'crm',
          sources: ['web'],
          sharedSecret: 's',
          webhooks: [{ url: 'https://a.example/' }],
        },
      ],
    })
    expect(await run(args, { folder, env: { [name]: '' } })).toEqual({
      code: 2,
      stdout: '',
      stderr: `${name} is empty. Give it a value, or unset it.\n`,
    })
    expect(await run(args, { folder, env: { [name]: 'ca\uFFFDf' } })).toMatchObject({
      stderr: `${name} has a byte that is not UTF-8. Set it in UTF-8.\n`,
    })
  },
)

test.each([
  [
    TRACK,
    'There is no write key. Give --key, set HOOKLINE_WRITE_KEY, or run this command in the folder with the settings.',
  ],
  [
    [...TRACK, '--key', 'k', '--to', 'ftp://x'],
    '--to must be an http or https URL such as \'https://collect.example.com\', got the protocol "ftp:".',
  ],
  [['send', 'track', '--key', 'k', '--event', 'e'], /^send track needs --user or --anonymous\.\n$/],
  [['send', 'track', '--key', 'k', '--user', 'u'], /^send track needs --event\.\n$/],
  [['send', 'group', '--key', 'k', '--user', 'u'], /^send group needs --group\.\n$/],
  [['send', 'alias', '--key', 'k', '--user', 'u'], /^send alias needs --previous\.\n$/],
  [['send', 'alias', '--key', 'k', '--previous', 'u'], /^send alias needs --user\.\n$/],
  [[...TRACK, '--key', 'k', '--traits', '{}'], /^send track takes no --traits\.\n$/],
  [[...TRACK, '--key', 'k', '--timestamp', 'noon'], /^--timestamp must be an ISO 8601 string/],
  [[...TRACK, '--key', 'k', '--message-id', 'a\nb'], /^--message-id must be a string without/],
  [[...TRACK, '--key', 'k', '--wait'], /^The URL of the destination is not known\. Give --url/],
  [[...TRACK, '--key', 'k', '--config', 'no.json'], /no\.json: there is no file no\.json in /],
])('%j is 2, and nothing is sent', async (args, message) => {
  const { code, stdout, stderr } = await runInside(args)
  expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
  expect(stderr).toMatch(message)
})
