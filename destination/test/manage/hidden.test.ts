// Write keys, secrets and values of headers that are set at run time appear nowhere but in the answer that generates them.
import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import type { SettingChanged } from '../../src/model/answers.js'
import { folderWith, start as startProcess } from '../cli/process.js'
import { startEndpoint } from '../endpoint.js'
import { ADMIN_TOKEN, post, track } from '../run.js'
import { dice } from '../simulation/chance.js'
import { ask, SETTINGS_KEY } from './api.js'

const seed = Number(process.env['SEED'] ?? Math.floor(Math.random() * 1e9))

test(
  `a secret is in no log, metric, page, list, audit entry, process table or file: SEED=${seed}`,
  { tags: 'long' },
  async () => {
    const { between, pick, chance } = dice(seed)
    const text = () => Array.from({ length: 24 }, () => between(0, 35).toString(36)).join('')
    const secrets = new Set([SETTINGS_KEY])
    const secret = () => {
      const made = text()
      secrets.add(made)
      return made
    }
    const queries = new Set<string>()
    const query = () => {
      const made = text()
      queries.add(made)
      return made
    }
    const standard = () => {
      const made = `whsec_${Buffer.from(text() + text()).toString('base64')}`
      secrets.add(made)
      return made
    }
    const endpoint = await startEndpoint([204, 500, 401, 204])
    onTestFinished(() => endpoint[Symbol.asyncDispose]())
    const folder = folderWith({
      listen: '127.0.0.1:0',
      adminToken: ADMIN_TOKEN,
      settingsKey: '${SETTINGS_KEY}',
      allowNetworks: ['127.0.0.0/8'],
    })
    const env = { SETTINGS_KEY, LOG_LEVEL: 'debug' }
    const running = startProcess(['serve', '--no-pretty'], { folder, env })
    const [, url = ''] = await running.printed(/"url":"(http[^"]+)".*"listening"/)
    const at = { url, adminUrl: url }
    const seen: string[] = []
    const see = async (method: string, path: string, body?: unknown) => {
      const answer = await ask(at, method, path, body)
      const { generated } = answer.body as Partial<SettingChanged>
      for (const made of Object.values(generated ?? {})) secrets.add(made)
      // Only the answer that generates a secret has it.
      seen.push(JSON.stringify({ ...answer.body, generated: undefined }))
      return answer
    }

    const keys: string[] = []
    for (let i = 0; i < 30; i++) {
      const name = pick(['a', 'b', 'c'])
      const writeKey = chance(0.5) ? { writeKey: chance(0.8) ? secret() : ` ${secret()}` } : {}
      const { body } = await see('PUT', `/sources/${name}`, writeKey)
      const { generated } = body as Partial<SettingChanged>
      keys.push(generated?.['writeKey'] ?? writeKey.writeKey ?? secret())
      await see(pick(['POST', 'DELETE']), `/sources/${name}/rotation`)
      const webhook = {
        url: `${endpoint.url}/${i}?key=${query()}`,
        headers: { 'X-Token': chance(0.9) ? secret() : `${secret()}\n` },
      }
      await see(pick(['PUT', 'PUT', 'PATCH']), `/destinations/${pick(['x', 'y'])}`, {
        sources: chance(0.9) ? [name] : [secret()].map(() => 'none'),
        webhooks: chance(0.9) ? [webhook] : [webhook, webhook],
        ...(chance(0.5) && { sharedSecret: chance(0.8) ? secret() : [secret(), 7] }),
        ...(chance(0.5) && { webhookSecret: chance(0.8) ? standard() : secret() }),
        ...(chance(0.1) && { sharedSecrets: 'unknown field' }),
      })
      await see(
        pick(['POST', 'DELETE']),
        `/destinations/x/rotation?secret=${pick(['sharedSecret', 'webhookSecret'])}`,
      )
      await post(at, [track(`m${i}`)], pick(keys))
      if (chance(0.1)) await see('DELETE', `/destinations/y?waiting=${pick(['keep', 'discard'])}`)
    }
    const reads = [
      '/sources',
      '/destinations',
      '/audit?limit=1000',
      '/status',
      '/overview',
      '/deliveries',
    ]
    for (const path of reads) await see('GET', path)
    for (const path of ['/', '/metrics']) {
      const headers = { Authorization: `Bearer ${ADMIN_TOKEN}` }
      seen.push(await (await fetch(url + path, { headers })).text())
    }
    seen.push(execFileSync('ps', ['-o', 'args=', '-p', String(running.pid)], { encoding: 'utf8' }))
    running.kill('SIGTERM')
    const { stdout, stderr, code } = await running.ended
    expect(code).toBe(0)
    seen.push(stdout, stderr)
    const data = join(folder, 'data')
    const files = readdirSync(data).map((name) => readFileSync(join(data, name), 'latin1'))
    expect(files.some((bytes) => bytes.includes('record_log'))).toBe(true)

    const foundIn = (places: readonly string[], all: ReadonlySet<string>) =>
      [...all].filter((one) => places.some((place) => place.includes(one)))
    expect(secrets.size).toBeGreaterThan(60)
    expect(foundIn([...seen, ...files], secrets)).toEqual([])
    // The log of attempts in the store has the full URLs.
    expect(foundIn(seen, queries)).toEqual([])
  },
)
