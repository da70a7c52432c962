import { isComparable, isSameHex, type Check, type Content } from './rule.js'

const encoder = new TextEncoder()
const HMAC_SHA1 = { name: 'HMAC', hash: 'SHA-1' }

/** The signature check with WebCrypto, for runtimes without the modules of Node. */
export const isSignedWeb: Check<Promise<boolean>> = async (secrets, content, signature) => {
  if (!isComparable(content, signature)) return false
  const digests = await Promise.all(secrets.map((secret) => digest(secret, content)))
  return digests.some((hex) => isSameHex(hex, signature))
}

async function digest(secret: string, content: Content): Promise<string> {
  const secretBytes = encoder.encode(secret)
  const key = await crypto.subtle.importKey('raw', secretBytes, HMAC_SHA1, false, ['sign'])
  const bytes = typeof content === 'string' ? encoder.encode(content) : new Uint8Array(content)
  const hash = new Uint8Array(await crypto.subtle.sign('HMAC', key, bytes))
  return Array.from(hash, (byte) => byte.toString(16).padStart(2, '0')).join('')
}
