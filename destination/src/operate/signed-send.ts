import type { Outcome } from '../model/outcome.js'
import type { HeaderList } from '../post/headers.js'
import { refusesSignature, type Signing } from '../post/signing.js'

/** Sends a body to one endpoint, with these headers in addition to the fixed ones. */
export type Send = (headers: HeaderList) => Promise<Outcome>

/** The last request that was sent for a message, and what came of it. */
export interface SignedSend {
  headers: HeaderList
  secret: string | undefined
  outcome: Outcome
  /** How many signatures the endpoint refused before. */
  refused: number
}

/**
 * Sends a body as a delivery does: during a rotation with one secret after the other, until one is accepted.
 *
 * @param addHeaders - More headers for each request.
 */
export async function sendSigned(
  send: Send,
  signing: Signing,
  { url, body, messageId }: { url: string; body: string; messageId: string },
  addHeaders: HeaderList = [],
): Promise<SignedSend> {
  const secrets = signing.secretsFor(url)
  for (let refused = 0; ; refused++) {
    const secret = secrets[refused]
    const headers = [...signing.headers(body, messageId, 1, secret), ...addHeaders]
    const outcome = await send(headers)
    if (outcome.verdict === 'delivered') signing.accepted(url, secret)
    if (refused + 1 >= secrets.length || !refusesSignature(outcome)) {
      return { headers, secret, outcome, refused }
    }
  }
}
