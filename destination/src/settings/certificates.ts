import { X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'

const BEGIN = /-----BEGIN [A-Z0-9 ]*CERTIFICATE-----/g
const CERTIFICATE = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g

/**
 * Reads the certificates of a PEM file.
 *
 * @throws Error if the file can't be read, has no certificate, or has one that is cut off or can't be decoded. The message continues
 * a sentence that begins with the name of the file.
 */
export function readCertificates(path: string, folder: string): string[] {
  const text = readText(resolve(folder, path))
  const certificates = text.match(CERTIFICATE) ?? []
  const begun = text.match(BEGIN)?.length ?? 0
  if (begun > certificates.length) {
    throw new Error(
      `contains ${begun} certificate${begun === 1 ? '' : 's'}, and ${certificates.length} of them can be read: expected each to begin ` +
        'with "-----BEGIN CERTIFICATE-----", and to end with "-----END CERTIFICATE-----"',
    )
  }
  if (certificates.length === 0) {
    throw new Error(
      'contains no certificate: expected PEM, with a line "-----BEGIN CERTIFICATE-----"',
    )
  }
  for (const [index, pem] of certificates.entries()) {
    try {
      new X509Certificate(pem)
    } catch (cause) {
      throw new Error(`contains an invalid certificate: number ${index + 1} can't be decoded`, {
        cause,
      })
    }
  }
  return [...certificates]
}

function readText(file: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException
    const why =
      code === 'ENOENT' ? `there is no file ${file}` : `${code ?? 'an error'} while reading ${file}`
    throw new Error(`can't be read: ${why}`, { cause })
  }
}
