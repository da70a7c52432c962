import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { verifyWebhook } from 'hookline'
import { describe, expect, test } from 'vitest'
import { folderWith, run, start as startProcess } from './cli/process.js'
import { startEndpoint } from './endpoint.js'
import { destination, endpoint, post, settingsFor, start, track } from './run.js'

describe('a secret is rotated', () => {
  test('without a gap at a receiver that knows one at a time, whenever it changes', async () => {
    let known = 'old'
    const taken: string[] = []
    const crm = await endpoint((response, { body, headers }) => {
      const isAuthentic = verifyWebhook(known, body, headers['x-signature'])
      if (isAuthentic) taken.push(String(headers['x-message-id']))
      response.writeHead(isAuthentic ? 204 : 401).end()
    })
    const settings = settingsFor([destination([crm], { sharedSecret: 'old' })])
    const running = await start(settings)
    const using = (secrets: { sharedSecret: string; otherSecret?: string }) =>
      running.reload({ ...settings, destinations: [destination([crm], secrets)] })

    await post(running, [track('with-old')])
    await expect.poll(() => taken).toEqual(['with-old'])
    await using({ sharedSecret: 'old', otherSecret: 'new' })
    await post(running, [track('announced')])
    await expect.poll(() => taken).toContain('announced')
    known = 'new'
    await post(running, [track('changed')])
    await expect.poll(() => taken).toContain('changed')
    await using({ sharedSecret: 'new' })
    await post(running, [track('with-new')])
    await expect.poll(() => taken).toContain('with-new')

    expect(taken).toHaveLength(4)
    expect(await running.stats()).toEqual([])
  })

  const seeds = Array.from({ length: 3 }, () => Math.floor(Math.random() * 1e9))

  test.concurrent.for(seeds)(
    'and no message is lost, whatever fails meanwhile: seed %i',
    { tags: 'long' },
    async (seed, { expect, onTestFinished }) => {
      const random = seeded(seed)
      let known = 'old'
      const failures = new Map<unknown, number>()
      let inARow = 0
      const taken = new Set<unknown>()
      const crm = await startEndpoint([
        (response, { body, headers }) => {
          // It is deployed in the middle of the requests: it changes its secret, and fails before and after that.
          if (random() < 0.05) known = 'new'
          const id = headers['x-message-id']
          const failed = failures.get(id) ?? 0
          // With more failures in a row it would be down, and probed once in a while.
          if (failed < 2 && inARow < 4 && random() < 0.4) {
            failures.set(id, failed + 1)
            inARow++
            response.writeHead(503).end()
            return
          }
          inARow = 0
          const isAuthentic = verifyWebhook(known, body, headers['x-signature'])
          if (isAuthentic) taken.add(id)
          const refusal = random() < 0.5 ? 401 : 400
          response.writeHead(isAuthentic ? 204 : refusal).end()
        },
      ])
      const cleanUps: (() => unknown)[] = [() => crm[Symbol.asyncDispose]()]
      onTestFinished(async () => {
        for (const cleanUp of cleanUps.reverse()) await cleanUp()
      })
      const later = (cleanUp: () => unknown) => void cleanUps.push(cleanUp)
      const secrets = { sharedSecret: 'old', otherSecret: 'new' }
      const running = await start(
        settingsFor([destination([crm], secrets)], {}, later),
        undefined,
        later,
      )
      const ids = Array.from({ length: 20 }, (_, i) => `m${i}`)
      for (const id of ids) await post(running, [track(id)])
      await expect.poll(() => running.stats()).toEqual([])
      expect([...taken].sort()).toEqual(ids.sort())
    },
  )
})

/** Random numbers from a seed: mulberry32. */
function seeded(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

test('no output of a run has a secret or a body in it', { tags: 'long' }, async () => {
  const webhookSecret = `whsec_${btoa('hush-webhook-secret-0123456789')}`
  const adminToken = 'hush-admin-token-0123456789'
  const well = await endpoint(204)
  const ill = await endpoint((response, { body }) => response.writeHead(503).end(body), 401)
  const settings = {
    listen: '127.0.0.1:0',
    adminListen: '127.0.0.1:0',
    sources: [{ name: 'web', writeKey: 'hush-key', rateLimit: { callsPerSecond: 1, burst: 3 } }],
    destinations: [
      {
        name: 'crm',
        sources: ['web'],
        sharedSecret: ['hush-old', 'hush-new'],
        webhookSecret,
        webhooks: [well, ill].map(({ url }) => ({
          url: `${url}?key=hush-query`,
          headers: { 'X-Token': 'hush-header' },
        })),
      },
      {
        name: 'unknown',
        sources: ['web'],
        sharedSecret: '${ENV_SECRET}',
        webhooks: [{ url: 'http://nowhere.invalid/?key=hush-query' }],
      },
    ],
    allowNetworks: ['127.0.0.0/8'],
    adminToken,
    operatorToken: 'hush-operator-token-0123456789',
  }
  const folder = folderWith(settings)
  const service = startProcess(['serve', '--log-level', 'debug'], {
    folder,
    env: { ENV_SECRET: 'hush-env' },
  })
  const [, url = '', admin = '', pid = ''] = await service.printed(
    /"url":"([^"]+)","admin":"([^"]+)".*"pid":(\d+).*"msg":"listening"/,
  )
  const answers: string[] = [readFileSync(`/proc/${pid}/cmdline`, 'utf8')]
  const ask = async (to: string, init: RequestInit = {}) => {
    const response = await fetch(to, init)
    answers.push(JSON.stringify([...response.headers]), await response.text())
  }
  const send = (key: string, body: string) =>
    ask(`${url}/v1/batch`, {
      method: 'POST',
      headers: { Authorization: `Basic ${btoa(`${key}:`)}` },
      body,
    })
  const call = track('m1', { userId: 'hush-user', properties: { plan: 'hush-body' } })
  const wrong = [
    { ...call, event: 7 },
    { ...call, type: 'none' },
  ]
  const batch = JSON.stringify({ writeKey: 'hush-key', batch: [call, ...wrong] })
  await send('hush-key', batch)
  await send('hush-wrong', batch)
  await send('hush-key', '{')
  await send('hush-key', JSON.stringify({ batch: [1, 2, 3].map((i) => track(`n${i}`)) }))
  await send('hush-key', batch)
  for (const path of ['/metrics', '/readyz', '/nowhere']) {
    await ask(admin + path, { headers: { Authorization: `Bearer ${adminToken}`, Via: 'proxy' } })
    await ask(admin + path, { headers: { Authorization: 'Bearer hush-guess', Via: 'proxy' } })
  }
  await Promise.all([well.has(1), ill.has(1)])

  const file = join(folder, 'hookline.config.json')
  writeFileSync(file, JSON.stringify({ ...settings, adminToken: 'hush', retention: 'hush-no' }))
  service.kill('SIGHUP')
  await service.printed(/not reloaded/)
  writeFileSync(file, `{ "adminToken": "${adminToken}", `)
  service.kill('SIGHUP')
  await service.printed(/not reloaded[^]*not reloaded/)
  service.kill('SIGTERM')
  const { code, stdout, stderr } = await service.ended
  expect(code).toBe(0)
  const text = JSON.stringify(settings).replace('nowhere.invalid', '10.0.0.1')
  const refused = await run(['serve'], {
    folder: folderWith(text),
    env: { ENV_SECRET: 'hush-env' },
  })
  expect(refused.stderr).toContain('10.0.0.1 is not a public address')
  answers.push(refused.stdout, refused.stderr)
  expect(stdout).toContain('"msg":"attempt"')

  // A wrong value that is not secret is shown, such as the retention. So the search below is known to find values.
  const output = [stdout, stderr, ...answers].join('\n').replaceAll('"hush-no\\"', '')
  expect(output).not.toContain('hush-no')
  for (const secret of ['hush', btoa('hush-key:'), webhookSecret.slice(6, 20)]) {
    expect(around(output, secret)).toEqual([])
  }
})

/** Each occurrence of a word with the text around it, which the failed test shows. */
function around(text: string, word: string): string[] {
  return Array.from(text.matchAll(new RegExp(`.{0,80}${word}.{0,20}`, 'g')), ([found]) => found)
}
