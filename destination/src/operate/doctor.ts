import { randomBytes } from 'node:crypto'
import type { LookupAddress } from 'node:dns'
import { isIP, type Socket } from 'node:net'
import { TLSSocket, type DetailedPeerCertificate } from 'node:tls'
import type { buildConnector } from 'undici'
import { createAddressRule } from '../model/address.js'
import { judgeError } from '../post/classify.js'
import { describeDnsError } from '../post/dns-errors.js'
import type { HeaderList } from '../post/headers.js'
import { createNetwork, type Network } from '../post/network.js'
import type { Outcome, OutcomeCode } from '../model/outcome.js'
import { createPoster } from '../post/poster.js'
import { createSigning, refusesSignature } from '../post/signing.js'
import { webhookBody } from '../enqueue/webhook-body.js'
import { withoutQuery } from '../model/shown-url.js'
import type { Destination, Endpoint, Settings } from '../settings/settings.js'
import { FIXES, fixOf } from './fixes.js'
import { sendSigned } from './signed-send.js'

/** The steps of an examination, in their order. */
export type Step = 'dns' | 'network' | 'connection' | 'certificate' | 'round trip' | 'signature'

/** The result of one step. */
export interface Finding {
  step: Step
  state: 'ok' | 'failed' | 'skipped'
  /** The result in words. */
  found: string
  /** The outcome of a connection or a request that failed, as in the log. */
  code?: OutcomeCode
  /** What the operator should do. Left out if there is nothing to do. */
  fix?: string
  /** The duration in ms. Left out for steps that do no I/O. */
  ms?: number
}

type Secrets = Pick<Destination, 'sharedSecret' | 'otherSecret' | 'webhookSecrets'>

/** What to examine, and how. */
export interface Examination {
  endpoint: Pick<Endpoint, 'url' | 'headers'>
  /** The secrets that sign the requests. */
  signing: Secrets
  network: Pick<Settings, 'allowNetworks' | 'ca'>
  /** Whether to send requests. If `false`, the examination ends after the connection. */
  post: boolean
  messageId: string
}

/** A certificate that expires within this many days gets a warning. */
const SOON_DAYS = 14

/**
 * Tests an endpoint step by step. It uses the code that delivers, so that it finds the problems that a delivery would have.
 * It ends at the first step that fails.
 */
export async function* examine(examination: Examination): AsyncGenerator<Finding> {
  const { endpoint, network: settings, post } = examination
  const url = new URL(endpoint.url)
  const network = createNetwork(settings)
  const host = url.hostname.replace(/^\[(.*)\]$/, '$1')

  const addresses: string[] = []
  const named = yield* done(await resolveName(host, network, addresses))
  if (!named) return
  if (!(yield* done(judgeAddresses(host, addresses, settings.allowNetworks)))) return
  for (const finding of await connect(url, host, network)) if (!(yield* done(finding))) return
  if (!post) {
    yield { step: 'round trip', state: 'skipped', found: 'No request was sent.' }
    return
  }
  try {
    yield* exchange(examination, network)
  } finally {
    await network.connections.close()
  }
}

function* done(finding: Finding): Generator<Finding, boolean> {
  yield finding
  return finding.state !== 'failed'
}

async function resolveName(host: string, network: Network, addresses: string[]): Promise<Finding> {
  const step = 'dns'
  if (isIP(host) !== 0) {
    addresses.push(host)
    return { step, state: 'ok', found: `${host} is an IP address and needs no DNS lookup.` }
  }
  const startedAt = performance.now()
  const [error, resolved] = await new Promise<[Error | null, LookupAddress[]]>((resolve) => {
    network.lookup(host, (...answer) => {
      resolve(answer)
    })
  })
  const ms = since(startedAt)
  if (error !== null) return { step, state: 'failed', ...describeDnsError(host, error), ms }
  addresses.push(...resolved.map(({ address }) => address))
  return { step, state: 'ok', found: `${host} resolves to ${addresses.join(', ')}.`, ms }
}

function judgeAddresses(
  host: string,
  addresses: readonly string[],
  allowNetworks: readonly string[],
): Finding {
  const step = 'network'
  const isAllowed = createAddressRule(allowNetworks)
  const refused = addresses.filter((address) => !isAllowed(address))
  if (refused.length === 0) return { step, state: 'ok', found: 'The address is allowed.' }
  const found = `Not allowed, because not public: ${refused.join(', ')}.`
  if (refused.length < addresses.length) {
    return { step, state: 'ok', found: `${found} The other addresses are allowed.` }
  }
  const fix = `If you trust ${host}, add its network to the setting allowNetworks: "${refused[0] ?? ''}".`
  return { step, state: 'failed', found, fix }
}

/** Connects in the same way as a delivery. First it connects without TLS, which tells the failures of the two steps apart. */
async function connect(url: URL, hostname: string, network: Network): Promise<Finding[]> {
  const { host, protocol } = url
  const port = url.port || (protocol === 'https:' ? '443' : '80')
  const target = { hostname, host, port }
  const plain = await open('connection', { ...target, protocol: 'http:' }, network)
  if (!('socket' in plain)) return [plain]
  const { remoteAddress = '', remotePort = 0 } = plain.socket
  const found = `To ${remoteAddress}, port ${remotePort}.`
  plain.socket.destroy()
  const connection: Finding = { step: 'connection', state: 'ok', found, ms: plain.ms }
  if (protocol !== 'https:') return [connection]
  const secure = await open('certificate', { ...target, protocol }, network)
  if (!('socket' in secure)) return [connection, secure]
  const { socket } = secure
  const certificate = socket instanceof TLSSocket ? [describeCertificate(socket)] : []
  socket.destroy()
  return [connection, ...certificate]
}

/** Opens a socket, or finds why it cannot be opened. */
async function open(
  step: 'connection' | 'certificate',
  target: buildConnector.Options & { host: string },
  network: Network,
): Promise<{ socket: Socket; ms: number } | Finding> {
  const startedAt = performance.now()
  try {
    const socket = await new Promise<Socket>((resolve, reject) => {
      network.connect(target, (error, connected) => {
        if (connected) resolve(connected)
        else reject(error)
      })
    })
    return { socket, ms: since(startedAt) }
  } catch (cause) {
    const { code, error } = judgeError(cause, target.host)
    const ms = since(startedAt)
    const isSilent = code === 'timeout' || code === 'connection_reset'
    const fix = step === 'certificate' && isSilent ? FIXES.tls : fixOf({ code, error }, false)
    return { step, state: 'failed', found: error ?? code, code, ...(fix && { fix }), ms }
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
  const fix = 'Renew the certificate soon. Once it has expired, nothing is sent to the endpoint.'
  return { step, state: 'ok', found, fix }
}

/**
 * The names in a certificate chain, from the endpoint's certificate to the authority's. The last certificate has itself as
 * its issuer, or has no issuer: the recursion ends there.
 */
function chainOf(one: DetailedPeerCertificate | undefined, seen: string[] = []): string[] {
  if (one === undefined || seen.includes(one.fingerprint256)) return []
  const { CN, O = '(no name)' }: { CN?: unknown; O?: unknown } = one.subject
  const name = [CN ?? O].flat().join(' ')
  return [name, ...chainOf(one.issuerCertificate, [...seen, one.fingerprint256])]
}

/** Sends a call whose event names the doctor, and then sends it again with a wrong signature, which must be refused. */
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
  const url = withoutQuery(endpoint.url)
  const { headers, outcome, refused } = await sendSigned(send, createSigning(signing), {
    url: endpoint.url,
    body,
    messageId,
  })
  const signature = describeSignature(headers)
  const { verdict, code, status, ms, error = '', response } = outcome
  const said = response === '' ? '' : ` The body of the answer: ${response.slice(0, 200)}`
  if (verdict !== 'delivered') {
    const isRefused = refusesSignature(outcome)
    const fix = fixOf(outcome, signature !== '')
    const both = refused > 0 ? ' It refused both secrets of the rotation.' : ''
    const found = `${error}${said}${isRefused ? both : ''}`
    yield { step: 'round trip', state: 'failed', found, code, ...(fix && { fix }), ms }
    if (signature === '') return
    const signed = `The request had ${signature}, for this body of ${Buffer.byteLength(body)} bytes: ${body}`
    // A 400 may have many other reasons.
    const state = isRefused && status !== 400 ? 'failed' : 'skipped'
    yield { step: 'signature', state, found: signed }
    return
  }
  const which =
    refused === 0 ? '' : ' It refused the first secret of the rotation, and accepts the second one.'
  yield { step: 'round trip', state: 'ok', found: `${url} answered ${status}.${which}`, ms }
  if (signature === '') {
    const found = 'Requests are not signed, because there is no secret.'
    const fix = 'Set sharedSecret in the settings, or pass --secret.'
    yield { step: 'signature', state: 'skipped', found, fix }
    return
  }
  const wrong = await send(wrongHeaders(signing, body, messageId))
  if (wrong.verdict === 'delivered') {
    const found = `The endpoint accepts ${signature}, but also a wrong signature (${wrong.status}): it does not verify signatures.`
    yield { step: 'signature', state: 'failed', found, fix: FIXES.unchecked, ms: wrong.ms }
    return
  }
  // An endpoint that is too slow or too busy refuses nothing, and a redirect or a 5xx may have any reason.
  if (wrong.code !== 'client_error') {
    const found = `The endpoint accepts ${signature}. It is not known whether it refuses a wrong signature: ${wrong.error ?? wrong.code}`
    yield {
      step: 'signature',
      state: 'skipped',
      found,
      code: wrong.code,
      fix: FIXES.unknown,
      ms: wrong.ms,
    }
    return
  }
  const found = `The endpoint accepts ${signature} and refuses a wrong signature (${wrong.status}).`
  yield { step: 'signature', state: 'ok', found, ms: wrong.ms }
}

/** The headers of the same message, signed in the same ways with secrets that nobody has. */
function wrongHeaders(
  { sharedSecret, webhookSecrets }: Secrets,
  body: string,
  messageId: string,
): HeaderList {
  const wrong = randomBytes(24).toString('base64')
  const signing = createSigning({
    sharedSecret: sharedSecret === undefined ? undefined : wrong,
    ...(webhookSecrets && { webhookSecrets: [`whsec_${wrong}`] }),
  })
  return signing.headers(body, messageId, 2, sharedSecret === undefined ? undefined : wrong)
}

/** The headers that are a signature, as `X-Signature: 5d41…`; empty if the request is not signed. */
function describeSignature(headers: HeaderList): string {
  const described: string[] = []
  for (let i = 0; i < headers.length; i += 2) {
    const [name = '', value = ''] = headers.slice(i, i + 2)
    if (/^(X-Signature|webhook-.*)$/.test(name)) described.push(`${name}: ${value}`)
  }
  return described.join(', ')
}

function since(startedAt: number): number {
  return Math.round(performance.now() - startedAt)
}
