// What verifying a webhook's signature costs, against the bare HMAC that nobody can do without. Each
// library signs and verifies by its own scheme (SHA-1 here, SHA-256 in the peers), over the same bodies.
// All run in this one process, round by round, so that a busy machine slows all of them alike.
import { createHmac, timingSafeEqual } from 'node:crypto'
import * as octokit from '@octokit/webhooks-methods'
import { Webhook } from 'standardwebhooks'
import Stripe from 'stripe'
import { dist } from '../dist.js'
import { median } from '../measure.js'

const SECRET = 'a-secret-of-a-usual-length'
const SIZES = { '300 B': 300, '3 KB': 3_000, '32 KB': 32_000 }
const ROUNDS = 31
const QUICK_ROUNDS = 11
const ROUND_BYTES = 1_000_000 // hashed by each subject in a round

const hmac = (algorithm, body) => createHmac(algorithm, SECRET).update(body).digest('hex')

/** Each gives, for a body, a function that verifies it once. */
const makers = {
  bare: (body) => () => hmac('sha1', body),
  hookline: async (body) => {
    const { verifyWebhook } = await import(new URL('webhook.js', dist).href)
    const signature = hmac('sha1', body)
    return () => verifyWebhook(SECRET, body, signature)
  },
  usual: (body) => {
    const signature = hmac('sha1', body)
    return () => {
      const expected = Buffer.from(hmac('sha1', body))
      const given = Buffer.from(signature)
      return expected.length === given.length && timingSafeEqual(expected, given)
    }
  },
  octokit: (body) => {
    const signature = `sha256=${hmac('sha256', body)}`
    return () => octokit.verify(SECRET, body, signature)
  },
  stripe: (body) => {
    const { webhooks } = Stripe
    const header = webhooks.generateTestHeaderString({ payload: body, secret: SECRET })
    return () => webhooks.signature.verifyHeader(body, header, SECRET)
  },
  standardwebhooks: (body) => {
    const webhook = new Webhook(Buffer.from(SECRET).toString('base64'))
    const now = new Date()
    const headers = {
      'webhook-id': 'msg_1',
      'webhook-timestamp': String(Math.floor(now.getTime() / 1000)),
      'webhook-signature': webhook.sign('msg_1', now, body),
    }
    return () => webhook.verify(body, headers)
  },
}

function bodyOf(bytes) {
  const body = JSON.stringify({ type: 'track', event: '' })
  return body.replace('""', JSON.stringify('x'.repeat(bytes - body.length)))
}

/** @returns microseconds a call */
async function timeRound(verify, calls) {
  const start = performance.now()
  for (let call = 0; call < calls; call += 1) {
    const result = verify()
    if (!(result instanceof Promise ? await result : result)) throw new Error('verified as false')
  }
  return ((performance.now() - start) * 1000) / calls
}

async function measure(variant, { subjects, rounds }) {
  const body = bodyOf(SIZES[variant])
  const calls = Math.ceil(ROUND_BYTES / body.length)
  const rows = []
  for (const subject of subjects) {
    const verify = await makers[subject](body)
    rows.push({ variant, subject, runs: rounds, faults: [], ratios: {}, verify, times: [] })
  }
  for (let round = 0; round < rounds; round += 1) {
    for (const { verify, times } of rows) times.push(await timeRound(verify, calls))
  }
  const bare = rows.find(({ subject }) => subject === 'bare')
  for (const row of rows) {
    row.callUs = median(row.times)
    row.ratios.cost = median(row.times.map((time, round) => time / bare.times[round]))
  }
  return rows
}

export default {
  name: 'verify',
  title: 'One verification of a webhook, next to the bare HMAC-SHA1 of its body',
  subjects: Object.keys(makers),
  requires: ['bare'],
  columns: [
    { head: 'cost x', ratio: 'cost' },
    { head: 'µs a call', value: 'callUs' },
  ],
  targets: Object.keys(SIZES).map((variant) => ({
    what: 'cost of verifyWebhook',
    variant,
    ratio: 'cost',
    atMost: 1.3,
  })),

  async collect({ subjects, isQuick, progress }) {
    const rounds = isQuick ? QUICK_ROUNDS : ROUNDS
    const rows = []
    for (const variant of Object.keys(SIZES)) {
      progress(`verify ${variant}`)
      rows.push(...(await measure(variant, { subjects, rounds })))
    }
    return rows
  },
}
