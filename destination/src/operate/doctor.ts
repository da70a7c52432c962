import { lookup } from 'node:dns/promises'
import { isIP, type Socket } from 'node:net'
import { TLSSocket, type DetailedPeerCertificate } from 'node:tls'
import { createAddressRule } from '../post/address.js'
import { judgeError } from '../post/classify.js'
import { messageHeaders, type HeaderList } from '../post/headers.js'
import { createNetwork, type Network } from '../post/network.js'
import type { Outcome } from '../model/outcome.js'
import { createPoster } from '../post/poster.js'
import { createSigning } from '../post/signing.js'
import { webhookBody } from '../enqueue/webhook-body.js'
import { withoutQuery } from '../model/shown-url.js'
import type { Destination, Endpoint, Settings } from '../settings/settings.js'

/** What is looked at, in this order. */
export type Step = 'dns' | 'network' | 'connection' | 'certificate' | 'round trip' | 'signature'

/** What came of one step. */
export interface Finding {
  step: Step
  state: 'ok' | 'failed' | 'skipped'
  /** What was found, in words. */
  found: string
  /** What to do about it. */
  fix?: string
  /** In ms, where it took any. */
  ms?: number
}

/** What is examined, and how. */
export interface Examination {
  endpoint: Pick<Endpoint, 'url' | 'headers'>
  /** How it is signed. */
  signing: Pick<Destination, 'sharedSecret' | 'webhookSecrets'>
  network: Pick<Settings, 'allowNetworks' | 'ca'>
  /** Whether anything is sent; without it the endpoint is connected to, and that is all. */
  post: boolean
  messageId: string
}

/** A certificate that ends within so many days is told of. */
const SOON_DAYS = 14

/**
 * Goes the way of a delivery to an endpoint, step by step, by the code that delivers: what it finds is what a delivery
 * would. The first step that fails is the last.
 */
export async function* examine(examination: Examination): AsyncGenerator<Finding> {
  const { endpoint, network: settings, post } = examination
  const url = new URL(endpoint.url)
  const network = createNetwork(settings)
  const host = url.hostname.replace(/^\[(.*)\]$/, '$1')

  const addresses: string[] = []
  const named = yield* done(await resolveName(host, addresses))
  if (!named) return
  if (!(yield* done(judgeAddresses(host, addresses, settings.allowNetworks)))) return
  for (const finding of await connect(url, host, network)) if (!(yield* done(finding))) return
  if (!post) {
    yield { step: 'round trip', state: 'skipped', found: 'Nothing is to be sent.' }
    return
  }
  yield* exchange(examination, network)
}

function* done(finding: Finding): Generator<Finding, boolean> {
  yield finding
  return finding.state !== 'failed'
}

async function resolveName(host: string, addresses: string[]): Promise<Finding> {
  const step = 'dns'
  if (isIP(host) !== 0) {
    addresses.push(host)
    return { step, state: 'ok', found: `${host} is an address: there is nothing to look up.` }
  }
  const startedAt = performance.now()
  try {
    const found = await lookup(host, { all: true })
    addresses.push(...found.map(({ address }) => address))
  } catch (error) {
    const { code = '' } = error as NodeJS.ErrnoException
    return {
      step,
      state: 'failed',
      found: `The name ${host} could not be resolved (${code}).`,
      fix: 'Check its DNS records, and the DNS of this machine.',
      ms: since(startedAt),
    }
  }
  const found = `${host} is ${addresses.join(', ')}.`
  return { step, state: 'ok', found, ms: since(startedAt) }
}

function judgeAddresses(
  host: string,
  addresses: readonly string[],
  allowNetworks: readonly string[],
): Finding {
  const step = 'network'
  const isAllowed = createAddressRule(allowNetworks)
  const refused = addresses.filter((address) => !isAllowed(address))
  if (refused.length === 0) return { step, state: 'ok', found: 'It may be reached.' }
  const found = `${refused.join(', ')} is private, or no place in the internet: it is not reached.`
  if (refused.length < addresses.length) {
    return { step, state: 'ok', found: `${found} The others are.` }
  }
  const fix = `If ${host} is yours, add its network to the setting allowNetworks: "${refused[0] ?? ''}".`
  return { step, state: 'failed', found, fix }
}

/** Connects as a delivery does, and reads the certificates. */
async function connect(url: URL, hostname: string, network: Network): Promise<Finding[]> {
  const startedAt = performance.now()
  const { host, protocol, port } = url
  try {
    const socket = await new Promise<Socket>((resolve, reject) => {
      network.connect({ hostname, host, protocol, port }, (error, connected) => {
        if (connected) resolve(connected)
        else reject(error)
      })
    })
    const ms = since(startedAt)
    const { remoteAddress = '', remotePort = 0 } = socket
    const findings: Finding[] = [
      { step: 'connection', state: 'ok', found: `To ${remoteAddress}, port ${remotePort}.`, ms },
    ]
    if (socket instanceof TLSSocket) findings.push(describeCertificate(socket))
    socket.destroy()
    return findings
  } catch (error) {
    const { code, error: found = '' } = judgeError(error, host)
    const ms = since(startedAt)
    // That of a certificate says its fix itself.
    if (code === 'tls_error') return [{ step: 'certificate', state: 'failed', found, ms }]
    return [{ step: 'connection', state: 'failed', found, fix: FIXES.connection, ms }]
  }
}

function describeCertificate(socket: TLSSocket): Finding {
  const step = 'certificate'
  const leaf = socket.getPeerCertificate(true)
  const endsAt = new Date(leaf.valid_to)
  const days = Math.floor((endsAt.getTime() - Date.now()) / 86_400_000)
  const found =
    `${socket.getProtocol() ?? 'TLS'}; ${chainOf(leaf).join(' ← ')}; ` +
    `valid until ${endsAt.toISOString().slice(0, 10)}, for ${days} days.`
  if (days >= SOON_DAYS) return { step, state: 'ok', found }
  return { step, state: 'ok', found, fix: 'Renew it soon: nothing is sent once it has expired.' }
}

/**
 * The names in a chain of certificates, from the endpoint's own to that of the authority. The last one has itself for its
 * issuer, or none.
 */
function chainOf(one: DetailedPeerCertificate | undefined, seen: string[] = []): string[] {
  if (one === undefined || seen.includes(one.fingerprint256)) return []
  const { CN, O = '(no name)' }: { CN?: unknown; O?: unknown } = one.subject
  const name = [CN ?? O].flat().join(' ')
  return [name, ...chainOf(one.issuerCertificate, [...seen, one.fingerprint256])]
}

const FIXES = {
  connection: 'Does the endpoint run, and is its port open to this machine?',
  secret:
    'Is it the same secret on both sides, and does the receiver check the bytes as they came, before they are parsed?',
  answer: 'The endpoint has to answer 2xx to what it has taken. Its own log says more.',
  unchecked:
    'Anybody can send to it. Let the receiver compare X-Signature, as verifyWebhook of hookline/webhook does.',
}

/** Sends a call that says what it is for, as it would be sent, and then once more with a wrong signature. */
async function* exchange(
  { endpoint, signing, messageId }: Examination,
  network: Network,
): AsyncGenerator<Finding> {
  const poster = createPoster({ ...endpoint, concurrency: 1 }, network)
  const send = (headers: HeaderList) =>
    new Promise<Outcome>((resolve) => {
      poster.post(body, headers, resolve)
    })
  const body = webhookBody({
    type: 'track',
    messageId,
    timestamp: new Date().toISOString(),
    userId: 'hookline-doctor',
    event: 'Hookline Doctor',
  })
  const { sharedSecret } = signing
  const headers = createSigning(signing).headers(body, messageId, 1)
  const signature = sharedSecret === undefined ? '' : (headers[1] ?? '')
  try {
    const { verdict, status, ms, error = '', response } = await send(headers)
    const said = response === '' ? '' : ` It said: ${response.slice(0, 200)}`
    const isRefused = status === 400 || status === 401 || status === 403
    if (verdict !== 'delivered') {
      const fix = isRefused && signature !== '' ? FIXES.secret : FIXES.answer
      const found = `${error}${said}`
      yield { step: 'round trip', state: 'failed', found, fix, ms }
      if (signature === '') return
      const signed = `Was sent: X-Signature: ${signature}, of these ${Buffer.byteLength(body)} bytes: ${body}`
      yield { step: 'signature', state: isRefused ? 'failed' : 'skipped', found: signed }
      return
    }
    const found = `${withoutQuery(endpoint.url)} answered ${status}.`
    yield { step: 'round trip', state: 'ok', found, ms }
    if (signature === '') {
      const found = 'There is no secret: requests are not signed.'
      yield {
        step: 'signature',
        state: 'skipped',
        found,
        fix: 'Set sharedSecret, or give --secret.',
      }
      return
    }
    const wrong = await send(messageHeaders(`not ${sharedSecret ?? ''}`, body, messageId, 2))
    if (wrong.verdict === 'delivered') {
      const found = `It takes ${signature}, and a wrong one as well (${wrong.status}): it checks none.`
      yield { step: 'signature', state: 'failed', found, fix: FIXES.unchecked, ms: wrong.ms }
      return
    }
    const refused = `It takes ${signature}, and refuses a wrong one (${wrong.status ?? wrong.code}).`
    yield { step: 'signature', state: 'ok', found: refused, ms: wrong.ms }
  } finally {
    await poster.close()
  }
}

function since(startedAt: number): number {
  return Math.round(performance.now() - startedAt)
}
