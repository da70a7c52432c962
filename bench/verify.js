// What verifying a signature costs, against the bare HMAC that nobody can do without: each library signs
// and verifies by its own scheme (SHA-1 here, SHA-256 in the peers), over the same bodies. The rounds
// interleave, so that a busy machine slows all of them alike, and each figure is the median of its rounds.
//
//   node bench/verify.js      after npm run build; peers that are not installed are left out
import { createHmac, timingSafeEqual } from 'node:crypto'
import { pathToFileURL } from 'node:url'
import { verifyWebhook } from 'hookline/webhook'

const SECRET = 'a-secret-of-a-usual-length'
const BODY_BYTES = [300, 3_000, 32_000]
const ROUNDS = 31
const ROUND_BYTES = 4_000_000 // hashed by each contestant in a round, at 300 B about 15 ms

const hmac = (algorithm, body) => createHmac(algorithm, SECRET).update(body).digest('hex')

/** Each gives, for a body, a function that verifies it once. */
const contestants = {
  'bare HMAC-SHA1': (body) => () => hmac('sha1', body),
  hookline: (body) => {
    const signature = hmac('sha1', body)
    return () => verifyWebhook(SECRET, body, signature)
  },
  'the usual form': (body) => {
    const signature = hmac('sha1', body)
    return () => {
      const expected = Buffer.from(hmac('sha1', body))
      const given = Buffer.from(signature)
      return expected.length === given.length && timingSafeEqual(expected, given)
    }
  },
  ...(await peers()),
}

async function peers() {
  const [octokit, stripe, standard] = await Promise.all(
    ['@octokit/webhooks-methods', 'stripe', 'standardwebhooks'].map((name) =>
      import(name).catch(() => undefined),
    ),
  )
  return {
    ...(octokit && {
      '@octokit/webhooks-methods': (body) => {
        const signature = `sha256=${hmac('sha256', body)}`
        return () => octokit.verify(SECRET, body, signature)
      },
    }),
    ...(stripe && {
      stripe: (body) => {
        const { webhooks } = stripe.default
        const header = webhooks.generateTestHeaderString({ payload: body, secret: SECRET })
        return () => webhooks.signature.verifyHeader(body, header, SECRET)
      },
    }),
    ...(standard && {
      standardwebhooks: (body) => {
        const webhook = new standard.Webhook(Buffer.from(SECRET).toString('base64'))
        const now = new Date()
        const headers = {
          'webhook-id': 'msg_1',
          'webhook-timestamp': String(Math.floor(now.getTime() / 1000)),
          'webhook-signature': webhook.sign('msg_1', now, body),
        }
        return () => webhook.verify(body, headers)
      },
    }),
  }
}

function bodyOf(bytes) {
  const body = JSON.stringify({ type: 'track', event: '' })
  return body.replace('""', JSON.stringify('x'.repeat(bytes - body.length)))
}

const median = (values) => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)]

/** Medians in nanoseconds a call, by contestant. */
async function measure(bytes) {
  const body = bodyOf(bytes)
  const calls = Math.ceil(ROUND_BYTES / bytes / 4)
  const rows = Object.entries(contestants).map(([name, make]) => ({
    name,
    run: make(body),
    ns: [],
  }))
  for (let round = 0; round < ROUNDS; round++) {
    for (const { run, ns } of rows) {
      const started = process.hrtime.bigint()
      for (let call = 0; call < calls; call++) {
        const result = run()
        if (result instanceof Promise) await result
      }
      ns.push(Number(process.hrtime.bigint() - started) / calls)
    }
  }
  return new Map(rows.map(({ name, ns }) => [name, median(ns)]))
}

/** Prints the table and gives the ratios to the bare HMAC, by body size and contestant. */
export default async function benchVerify() {
  const table = {}
  for (const bytes of BODY_BYTES) {
    const medians = await measure(bytes)
    const bare = medians.get('bare HMAC-SHA1')
    for (const [name, ns] of medians) {
      table[name] ??= {}
      table[name][`${bytes} B, µs`] = Number((ns / 1000).toFixed(2))
      table[name][`${bytes} B, ratio`] = Number((ns / bare).toFixed(2))
    }
  }
  console.table(table)
  return table
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) await benchVerify()
