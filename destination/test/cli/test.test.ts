import { describe, expect, test } from 'vitest'
import type { TestReport } from '../../src/model/answers.js'
import type { Answer } from '../endpoint.js'
import { ADMIN_TOKEN, destination, endpoint, settingsFor, start } from '../run.js'
import { runInside } from './inside.js'

/** Starts a destination with these endpoints, and returns the command line with its URL and token. */
async function withEndpoints(answers: Answer[], changes = {}) {
  const endpoints = await Promise.all(answers.map((answer) => endpoint(answer)))
  const one = await start(settingsFor([destination(endpoints, changes)]))
  const where = ['--url', one.adminUrl, '--token', ADMIN_TOKEN]
  return { endpoints, cli: (...args: string[]) => runInside(['test', ...args, ...where]) }
}

describe('test', () => {
  test('prints one line for each sample, and is 0 if each endpoint accepts each of them', async () => {
    const { endpoints, cli } = await withEndpoints([204], { enabled: false })
    const { code, stdout } = await cli('crm')
    expect(code).toBe(0)
    const lines = stdout
      .replaceAll(/\d+ ms/g, 'N ms')
      .trimEnd()
      .split('\n')
    expect(lines).toEqual([
      endpoints[0]?.url,
      '  X-Signature: HMAC-SHA1 of the body with the sharedSecret, in hex',
      '  ok      identify  204  (N ms)',
      '  ok      track     204  (N ms)',
      '  ok      page      204  (N ms)',
      '  ok      screen    204  (N ms)',
      '  ok      group     204  (N ms)',
      '  ok      alias     204  (N ms)',
      '  ok      delete    204  (N ms)',
      '',
      'Each endpoint of crm accepts these messages. The destination is disabled, so it gets only tests.',
    ])
  })

  test('says once what is wrong and what to do, escapes what the endpoint says, and is 1', async () => {
    const { cli } = await withEndpoints([
      (response) => response.writeHead(401).end('\u001b[31mwho are you?'),
      204,
    ])
    const { code, stdout } = await cli('crm', '--type', 'track', '-t', 'page')
    expect(code).toBe(1)
    const lines = stdout
      .replaceAll(/\d+ ms/g, 'N ms')
      .split('\n')
      .slice(2, 7)
    expect(lines).toEqual([
      '  failed  track     401  (N ms)',
      '                    The endpoint answered 401.',
      '                    It answered: \\u001b[31mwho are you?',
      '                    The endpoint may not accept the signature: check that both sides have the same secret, and that the receiver verifies the raw bytes of the body before it parses them. If it needs a password or a key, set it in the headers of the endpoint.',
      '  failed  page      401  (N ms)',
    ])
    expect(stdout).toContain('\nNot every endpoint of crm accepts these messages.\n')
  })

  test('prints the report as JSON', async () => {
    const { endpoints, cli } = await withEndpoints([500])
    const { code, stdout } = await cli('crm', '--type', 'delete', '--json')
    expect(code).toBe(1)
    const report = JSON.parse(stdout) as TestReport
    expect(report).toMatchObject({ ok: false, endpoints: [{ url: endpoints[0]?.url }] })
    expect(report.endpoints[0]?.samples).toMatchObject([
      { type: 'delete', status: 500, request: { body: endpoints[0]?.received[0]?.body } },
    ])
  })

  test('of a destination that the settings do not have is 1, and of a type that does not exist is 2', async () => {
    const { cli } = await withEndpoints([204])
    expect(await cli('crn')).toMatchObject({
      code: 1,
      stderr: 'The settings have no destination "crn".\n',
    })
    expect(await cli('crm', '--type', 'trak')).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('Expected one of identify, track, page') as string,
    })
  })
})
