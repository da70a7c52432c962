import { randomBytes } from 'node:crypto'
import { sampleBody } from '../enqueue/samples.js'
import type { TestedEndpoint, TestedSample, TestReport } from '../model/answers.js'
import type { EventType } from '../model/call.js'
import type { Outcome } from '../model/outcome.js'
import { withoutQuery } from '../model/shown-url.js'
import type { HeaderList } from '../post/headers.js'
import { createNetwork, type Network } from '../post/network.js'
import { createPoster } from '../post/poster.js'
import { createSigning, type Signing } from '../post/signing.js'
import type { Destination, Endpoint, Settings } from '../settings/settings.js'
import { fixOf } from './fixes.js'
import { shownHeaders } from './shown-request.js'
import { sendSigned, type SignedSend } from './signed-send.js'

/** Marks the requests of a test, so that a receiver can verify them and then leave them out. */
const TEST_HEADERS: HeaderList = ['X-Hookline-Test', 'true']

/**
 * No sample is started after this time, in ms. A slow endpoint would otherwise hold the request of the operator for longer
 * than usual proxies wait, which is 60 s.
 */
const TEST_MS = 30_000

/** What to send, and how. */
export interface Test {
  destination: Destination
  types: readonly EventType[]
  network: Pick<Settings, 'allowNetworks' | 'ca'>
  /** See {@link createSigning}. */
  wall: () => number
  /** Ends the test early: the samples that are not sent yet are not sent. */
  isOver: () => boolean
}

/**
 * Sends a sample of each type to each endpoint of a destination, one after the other, with the code that delivers. Nothing
 * is stored. The connections are the test's own, so that neither the breaker nor the rate of an endpoint changes.
 */
export async function sendTest({ destination, types, network: settings, wall, isOver }: Test) {
  const at = Math.round(wall())
  const startedAt = performance.now()
  const network = createNetwork(settings)
  const stopReason = (): string | undefined => {
    if (isOver()) return 'Not sent, because nobody waited for the result any more.'
    const isLate = performance.now() - startedAt >= TEST_MS
    return isLate ? `Not sent, because the test took ${TEST_MS / 1_000} s until here.` : undefined
  }
  const signing = createSigning(destination, wall)
  try {
    const endpoints = await Promise.all(
      destination.webhooks.map((endpoint) =>
        testEndpoint({ endpoint, destination, signing, types, network, stopReason }),
      ),
    )
    const report: TestReport = {
      destination: destination.name,
      enabled: destination.enabled,
      ok: endpoints.every(({ ok }) => ok),
      at,
      ms: Math.round(performance.now() - startedAt),
      endpoints,
    }
    return report
  } finally {
    await network.connections.close()
  }
}

interface EndpointTest {
  endpoint: Endpoint
  destination: Destination
  signing: Signing
  types: readonly EventType[]
  network: Network
  /** Why no more samples are sent; `undefined` while they are. */
  stopReason: () => string | undefined
}

async function testEndpoint(test: EndpointTest): Promise<TestedEndpoint> {
  const { endpoint, types, network, stopReason } = test
  const { url } = endpoint
  const poster = createPoster({ url, headers: endpoint.headers, concurrency: 1 }, network)
  const samples: TestedSample[] = []
  let isSilent = false
  for (const type of types) {
    const messageId = testId()
    const reason = isSilent ? SILENT : stopReason()
    if (reason !== undefined) {
      samples.push(notSent(type, messageId, reason))
      continue
    }
    const body = sampleBody(type, messageId, new Date().toISOString())
    const send = (headers: HeaderList) =>
      new Promise<Outcome>((resolve) => {
        poster.post(body, headers, resolve)
      })
    const sent = await sendSigned(send, test.signing, { url, body, messageId }, TEST_HEADERS)
    samples.push(testedSample(test, { type, messageId, body }, sent))
    isSilent = sent.outcome.status === undefined
  }
  await poster.close()
  const ok = samples.every(({ verdict }) => verdict === 'delivered')
  return { url: withoutQuery(url), ok, samples }
}

/**
 * Makes the message id of a sample. It has 110 characters, and the collector refuses ids of more than 100. So no real message
 * has the same id, and a receiver never takes one for a duplicate of a sample.
 */
function testId(): string {
  return `hookline-test-${randomBytes(48).toString('hex')}`
}

const SILENT = 'Not sent, because the endpoint gave no answer to the sample before.'

function notSent(type: EventType, messageId: string, found: string): TestedSample {
  return {
    type,
    messageId,
    verdict: 'not_sent',
    code: null,
    status: null,
    ms: null,
    request: null,
    response: '',
    responseHeaders: null,
    found,
    fix: null,
  }
}

function testedSample(
  { endpoint, destination }: EndpointTest,
  { type, messageId, body }: { type: EventType; messageId: string; body: string },
  { headers, secret, outcome, refused }: SignedSend,
): TestedSample {
  const { verdict, code, status = null, ms, response, headers: responseHeaders = null } = outcome
  const signed = signedBy(destination, secret)
  return {
    type,
    messageId,
    verdict,
    code,
    status,
    ms,
    response,
    responseHeaders,
    request: { headers: shownHeaders(endpoint, headers), body, signed },
    found: `${outcome.error ?? `The endpoint answered ${status}.`}${rotation(outcome, refused)}`,
    fix: fixOf(outcome, signed.length > 0) ?? null,
  }
}

/** What a rotation of the secret had to do with the outcome. */
function rotation({ verdict }: Outcome, refused: number): string {
  if (refused === 0) return ''
  return verdict === 'delivered'
    ? ' It refused the other secret of the rotation.'
    : ' It refused both secrets of the rotation.'
}

function signedBy(
  { sharedSecret, otherSecret, webhookSecrets = [] }: Destination,
  secret: string | undefined,
): string[] {
  const which =
    otherSecret === undefined
      ? ''
      : secret === sharedSecret
        ? ', the first one'
        : ', the second one'
  const count = webhookSecrets.length
  return [
    ...(secret === undefined
      ? []
      : [`X-Signature: HMAC-SHA1 of the body with the sharedSecret${which}, in hex`]),
    ...(count === 0
      ? []
      : [
          'webhook-signature: HMAC-SHA256 of "webhook-id.webhook-timestamp.body" with ' +
            `${count === 1 ? 'the webhookSecret' : 'each of the two webhookSecrets'}, in base64`,
        ]),
  ]
}
