import { X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'

const CERTIFICATE = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g

/**
 * Reads the certificates of a PEM file, each of which must be one.
 *
 * @throws Error that says what is wrong with the file, to be read after its name.
 */
export function readCertificates(path: string, folder: string): string[] {
  const certificates = readText(resolve(folder, path)).match(CERTIFICATE) ?? []
  if (certificates.length === 0) {
    throw new Error('has no certificate: expected PEM, with "-----BEGIN CERTIFICATE-----"')
  }
  for (const [index, pem] of certificates.entries()) {
    try {
      new X509Certificate(pem)
    } catch (cause) {
      throw new Error(`is broken: its certificate ${index + 1} is none`, { cause })
    }
  }
  return [...certificates]
}

function readText(file: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException
    const why = code === 'ENOENT' ? 'there is no such file' : `${code ?? 'an error'} on reading it`
    throw new Error(`can't be read: ${why} (${file})`, { cause })
  }
}
