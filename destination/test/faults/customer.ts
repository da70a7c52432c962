import { createHmac } from 'node:crypto'
import { startEndpoint, type Received } from '../endpoint.js'
import { expectedBody } from './load.js'

/** What requests are signed with. */
export const SECRET = 'hush-secret'

/** A customer who keeps books of what arrives. */
export interface Customer extends AsyncDisposable {
  url: string
  /** How it answers; it starts well. */
  mode: 'well' | 'failing' | 'silent'
  /** How often each message was answered 204, by its id. */
  accepted: Map<string, number>
  /** What was not as it should be, of whatever arrived: the bytes, or their signature. */
  wrong: Received[]
  /** Requests that arrived, whatever became of them. */
  requests: number
  /** Waits until each of these messages was accepted. */
  has(ids: Iterable<string>): Promise<void>
}

export async function startCustomer(): Promise<Customer> {
  const waiting = new Set<() => void>()
  const endpoint = await startEndpoint([
    (response, received) => {
      customer.requests++
      if (!isRight(received)) customer.wrong.push(received)
      if (customer.mode === 'silent') return
      if (customer.mode === 'well') {
        const id = idOf(received)
        customer.accepted.set(id, (customer.accepted.get(id) ?? 0) + 1)
      }
      for (const look of waiting) look()
      response.writeHead(customer.mode === 'well' ? 204 : 503).end()
    },
  ])
  const customer: Customer = {
    url: endpoint.url,
    mode: 'well',
    accepted: new Map(),
    wrong: [],
    requests: 0,
    has: (ids) =>
      new Promise((resolve) => {
        const missing = new Set(ids)
        const look = () => {
          for (const id of missing) {
            if (!customer.accepted.has(id)) return
            missing.delete(id)
          }
          waiting.delete(look)
          resolve()
        }
        waiting.add(look)
        look()
      }),
    [Symbol.asyncDispose]: () => endpoint[Symbol.asyncDispose](),
  }
  return customer
}

/**
 * How many times a message was accepted again.
 *
 * @param late - Messages that do not count: see {@link lateAt}.
 */
export function duplicatesAt(
  { accepted }: Customer,
  late: ReadonlySet<string> = new Set(),
): number {
  return [...accepted].reduce((sum, [id, times]) => sum + (late.has(id) ? 0 : times - 1), 0)
}

/**
 * The messages with an attempt at a customer that had no answer in time, by the logs of services. On a machine that is busy for seconds
 * there may be some, and these are sent again.
 */
export function lateAt({ url }: Customer, ...logs: string[]): Set<string> {
  const lines = logs.flatMap((log) => log.split('\n'))
  // A kill may cut off the last line.
  const whole = lines.filter((line) => line.endsWith('}'))
  const attempts = whole.map(
    (line) => JSON.parse(line) as Record<'msg' | 'endpoint' | 'code' | 'messageId', string>,
  )
  const late = attempts.filter(
    ({ msg, endpoint, code }) => msg === 'attempt' && endpoint === url && code === 'timeout',
  )
  return new Set(late.map(({ messageId }) => messageId))
}

function isRight(received: Received): boolean {
  const { body, headers } = received
  const signature = createHmac('sha1', SECRET).update(body).digest('hex')
  return body === expectedBody(idOf(received)) && headers['x-signature'] === signature
}

function idOf({ headers }: Received): string {
  return String(headers['x-message-id'])
}
