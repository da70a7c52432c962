import { createPrivateKey, X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import type { ConnectionOptions } from 'node:tls'
import { urlError } from './url-error.js'

/** Also with the labels that OpenSSL reads as well. */
const CERTIFICATE =
  /-----BEGIN (?:X509 |TRUSTED )?CERTIFICATE-----[^-]+-----END (?:X509 |TRUSTED )?CERTIFICATE-----/g

/** A parameter of the URL that names a PEM file, and what the file contains. */
interface Pem {
  /** The parameter with its value. */
  name: string
  text: string
}

/**
 * Reads the parameters of TLS, and the files that they name. The files are checked here: from a wrong one, TLS makes an error that
 * names no parameter, or none at all.
 *
 * @throws StoreError `unsupported` if a parameter or a file can't be used.
 */
export function readTls(parameters: URLSearchParams): ConnectionOptions | false {
  const mode = parameters.get('sslmode') ?? 'disable'
  switch (mode) {
    case 'disable':
      if (!['sslrootcert', 'sslcert', 'sslkey'].some((name) => parameters.has(name))) return false
      throw urlError('has certificates but no TLS: add sslmode=verify-full')
    case 'require':
    case 'verify-full':
      return { ...readFiles(parameters), rejectUnauthorized: true }
    case 'verify-ca':
      return {
        ...readFiles(parameters),
        rejectUnauthorized: true,
        checkServerIdentity: () => undefined,
      }
    default:
      throw urlError(
        `has sslmode=${mode}: expected verify-full, require (the same), verify-ca or disable. Modes that do not verify ` +
          "the server's certificate are refused. Give a private CA as sslrootcert",
      )
  }
}

function readFiles(parameters: URLSearchParams): Pick<ConnectionOptions, 'ca' | 'cert' | 'key'> {
  const ca = readPem(parameters, 'sslrootcert')
  const cert = readPem(parameters, 'sslcert')
  const key = readPem(parameters, 'sslkey')
  if (ca) readCertificate(ca)
  if (cert && key) checkPair(cert, key)
  else if (cert)
    throw urlError('has sslcert without sslkey: add the private key of the certificate as sslkey')
  else if (key)
    throw urlError('has sslkey without sslcert: add the certificate of the key as sslcert')
  return { ca: ca?.text, cert: cert?.text, key: key?.text }
}

function readPem(parameters: URLSearchParams, parameter: string): Pem | undefined {
  const path = parameters.get(parameter)
  if (path === null) return undefined
  const name = `${parameter}=${path}`
  try {
    return { name, text: readFileSync(path, 'utf8') }
  } catch (cause) {
    throw urlError(`has ${name}, which can't be read`, cause)
  }
}

/** The first certificate of a file. @throws StoreError if there is none, or one that can't be decoded. */
function readCertificate({ name, text }: Pem): X509Certificate {
  try {
    const [first] = (text.match(CERTIFICATE) ?? []).map((pem) => new X509Certificate(pem))
    if (first) return first
  } catch (cause) {
    throw urlError(`has ${name}, which has a certificate that can't be decoded`, cause)
  }
  throw urlError(
    `has ${name}, which has no certificate: expected PEM, with a line "-----BEGIN CERTIFICATE-----"`,
  )
}

/** @throws StoreError if the certificate and the key can't be used together. */
function checkPair(cert: Pem, key: Pem): void {
  const certificate = readCertificate(cert)
  if (key.text.includes('ENCRYPTED')) {
    throw urlError(
      `has ${key.name}, which is encrypted: expected a key without a passphrase, as openssl pkey -in KEY -out PLAIN writes it`,
    )
  }
  if (!certificate.checkPrivateKey(readKey(key))) {
    throw urlError(
      `has ${key.name}, which is not the key of the certificate in ${cert.name}: give the key that belongs to it`,
    )
  }
}

function readKey({ name, text }: Pem) {
  try {
    return createPrivateKey(text)
  } catch (cause) {
    throw urlError(
      `has ${name}, which has no private key that can be read: expected PEM, with a line "-----BEGIN PRIVATE KEY-----"`,
      cause,
    )
  }
}
