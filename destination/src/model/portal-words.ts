/**
 * The error of an attempt in words for a tenant. A tenant that chooses the URLs must not learn from errors which addresses the names of
 * your network have, and cannot follow advice about the settings and the machine.
 *
 * @param error - The error in words, or a text that ends with it. It may be cut off at its end. A text in these words stays as it is.
 */
export function portalWords(error: string): string {
  return error
    .replace(REFUSED_ADDRESS, 'The endpoint has no public address: nothing was sent.')
    .replace(DNS_ADVICE, '$1')
    .replace(CONNECT_DETAIL, ' ($1).')
}

/**
 * The `cause` of an attempt, as a list has it, in words for a tenant. With a status, these are words of the endpoint, which stay.
 */
export function portalCause<Cause extends string | null>(
  cause: Cause,
  status: number | null,
): Cause | string {
  return cause === null || status !== null ? cause : portalWords(cause)
}

/** The texts of `post/guard.ts`. */
const REFUSED_ADDRESS = /The (?:address \S+ is private or reserved|name \S+ resolves to )[^]*$/

/** The texts of `post/dns-errors.ts`: what happened, and then the advice. */
const DNS_ADVICE = /(The name \S+ could not be resolved \([^)]*\): [^.]*\.)[^]*$/

/** What Node and undici add to the code of a connection that was not made: the addresses that they have tried. */
const CONNECT_DETAIL = / \((\w+): connect\b[^]*$/i
