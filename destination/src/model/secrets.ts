// A source and a destination have a second secret while one is being replaced. These say which ones hold.

/** The write keys of a source: one, or two during a rotation. */
export function writeKeysOf({
  writeKey,
  otherWriteKey,
}: {
  writeKey: string
  otherWriteKey?: string | undefined
}): string[] {
  return otherWriteKey === undefined ? [writeKey] : [writeKey, otherWriteKey]
}

/** The secrets of a destination for `X-Signature`: none, one, or two during a rotation. */
export function sharedSecretsOf({
  sharedSecret,
  otherSecret,
}: {
  sharedSecret: string | undefined
  otherSecret?: string | undefined
}): string[] {
  return [sharedSecret, otherSecret].filter((secret) => secret !== undefined)
}
