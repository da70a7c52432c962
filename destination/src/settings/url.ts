/** What is wrong with the URL of an endpoint, as a sentence in which `{got}` stands for it; `undefined` if nothing is. */
export function problemOfUrl(given: unknown): string | undefined {
  if (typeof given !== 'string' || !URL.canParse(given) || !/^https?:\/\//i.test(given)) {
    return 'expected a full URL with http or https, such as "https://example.com/hook", got {got}.'
  }
  const { username, password, port } = new URL(given)
  if (username !== '' || password !== '') {
    return (
      'expected a URL without a user name or password. ' +
      'Send them in a header instead: "headers": { "Authorization": "Basic …" }.'
    )
  }
  // `URL` removes line breaks and tabs, so requests would go to another URL than the one that is shown.
  if (/\p{Cc}|\s$/u.test(given)) {
    return 'expected a URL without control characters and without white space at the end, got {got}.'
  }
  if (port === '0') return 'expected a port from 1 to 65535, got {got}.'
  if (given.includes('#')) {
    return 'expected a URL without a fragment (#…), because HTTP does not send fragments. Remove it.'
  }
  return undefined
}
