import { describe, test, type TestContext } from 'vitest'
import { runScript, startCollector } from './collector.js'

const KEY = 'wk_SECRET-1'

/** What no log may show: the key in any form, and every value that a message holds. */
const SECRETS = [
  KEY,
  Buffer.from(`${KEY}:`).toString('base64'),
  Buffer.from(KEY).toString('base64').replaceAll('=', ''),
  'SECRET',
]

/** Passes by everything that is logged, with secrets wherever a message can have them. */
const script = `
  const analytics = new Analytics('${KEY}', {
    flushAt: 2,
    maxQueueBytes: 3_000,
    onInvalid: 'report',
    beforeSend: (message) => (message.messageId === 'id-dropped' ? null : message),
    context: { ip: 'SECRET-ip' },
  })
  const message = (messageId) => ({
    messageId,
    userId: 'SECRET-user',
    event: 'SECRET-event',
    properties: { card: 'SECRET-card' },
    context: { locale: 'SECRET-locale' },
  })
  const track = (id, more) => analytics.track({ ...message(id), ...more })
  track('id-1')
  track('id-2')
  await analytics.flush()
  track('id-3')
  await analytics.flush()
  track('id-dropped')
  track('id-large', { properties: { fill: 'SECRET'.repeat(1_000) } })
  track('id-invalid', { timestamp: 'SECRET-time' })
  track('id-key', { properties: { 'SECRET-key': 1n } })
  track('id-wrong', { anonymousId: ['SECRET-id'], groupId: 'SECRET-group' })
  track('id-circular', { properties: { get secret() { throw new Error('SECRET-getter') } } })
  await analytics.close()
  track('id-closed')
  new Analytics('${KEY}', { disabled: true }).track(message('id-disabled'))
  const fetch = () => new Promise(() => {})
  const crowded = new Analytics('${KEY}', { fetch, maxQueueBytes: 300, overflow: 'drop-oldest' })
  crowded.track(message('id-oldest'))
  crowded.track(message('id-newest'))
  await crowded.close({ timeout: 0 })
`

async function log(DEBUG: string | undefined, { expect, onTestFinished }: TestContext) {
  const collector = await startCollector(onTestFinished)
  // This server repeats what it was sent: its answers hold secrets too.
  const echo = ({ headers, json }: { headers: Record<string, string>; json: string }) =>
    `bad key ${KEY}, ${headers['authorization'] ?? ''}, ${json}`
  collector.script(
    (arrival) => ({ status: 503, body: echo(arrival) }),
    'reset',
    (arrival) => ({
      body: JSON.stringify({ rejected: [{ index: 0, code: 'x', message: echo(arrival) }] }),
    }),
    (arrival) => ({ status: 403, body: echo(arrival) }),
  )
  const env = { ANALYTICS_ENDPOINT: collector.url, ...(DEBUG !== undefined && { DEBUG }) }
  const ended = await runScript(script, { env })
  expect(ended).toMatchObject({ code: 0, stdout: '' })
  return ended.stderr
}

describe.concurrent('DEBUG', { timeout: 120_000 }, () => {
  test('analytics logs what happens to messages, by type and id', async (context) => {
    const { expect } = context
    const stderr = await log('analytics', context)
    for (const line of [
      /analytics enqueue track id-1\b/,
      /analytics enqueue track id-2\b/,
      /analytics flush 2 messages/,
      /analytics attempt 1: 2 messages, \d+ bytes: 503 after \d+ ms/,
      /analytics attempt 2: 2 messages, \d+ bytes: .+ after \d+ ms/,
      /analytics attempt 3: 2 messages, \d+ bytes: 200 after \d+ ms/,
      /analytics next attempt in \d+ ms/,
      /analytics attempt 1: 1 messages, \d+ bytes: 403 after \d+ ms/,
      /analytics rejected 1 messages: rejected: The endpoint answered 403\. Check the write key\./,
      /analytics drop track id-large: queue_full/,
      /analytics drop track id-closed: closed/,
      /analytics drop track id-dropped: before_send/,
      /analytics drop track id-disabled: disabled/,
      /analytics dropped 1 messages: queue_full/,
      /analytics dropped 1 messages: close_timeout/,
      /analytics refused track: invalid_message/,
    ]) {
      expect(stderr).toMatch(line)
    }
  })

  test('analytics never shows the write key, nor contents, nor answers that repeat them', async (context) => {
    const { expect } = context
    const stderr = await log('analytics', context)
    for (const secret of SECRETS) expect(stderr).not.toContain(secret)
  })

  test.for([undefined, '', 'express', 'analytics:*', 'analytics2', 'analytic', '*,-analytics'])(
    '%s prints nothing of ours',
    { tags: 'long' },
    async (namespaces, context) => {
      context
        .expect(await log(namespaces, context))
        .not.toMatch(/analytics (enqueue|flush|attempt|drop|refused)/)
    },
  )
})
