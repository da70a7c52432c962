import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** A private key and its certificate, both in PEM. */
export interface Certificate {
  key: string
  cert: string
}

/** Whether the command `openssl` exists. The certificates are made with it. */
export function hasOpenssl(): boolean {
  try {
    execFileSync('openssl', ['version'], { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
}

const CONFIG = `
[ca]
default_ca = own
[own]
database = index.txt
serial = serial
new_certs_dir = .
default_md = sha256
policy = any
unique_subject = no
copy_extensions = copy
[any]
commonName = supplied
[req]
distinguished_name = dn
[dn]
`

/** Makes a new certificate authority in a new folder. `dispose` deletes the folder. */
export function createAuthority() {
  const cwd = mkdtempSync(join(tmpdir(), 'hookline-authority-'))
  const openssl = (...args: string[]) => execFileSync('openssl', args, { cwd, stdio: 'pipe' })
  const read = (name: string) => readFileSync(join(cwd, name), 'utf8')
  writeFileSync(join(cwd, 'config'), CONFIG)
  writeFileSync(join(cwd, 'index.txt'), '')
  writeFileSync(join(cwd, 'serial'), '01\n')
  const request = (name: string, subject: string, ...extensions: string[]) => {
    const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes']
    const subj = ['-subj', `/CN=${subject}`, '-config', 'config', '-keyout', `${name}.key`]
    const added = extensions.flatMap((extension) => ['-addext', extension])
    return ['req', ...key, ...subj, ...added]
  }
  const authority = ['basicConstraints=critical,CA:TRUE', 'keyUsage=critical,keyCertSign,cRLSign']
  openssl(...request('root', 'Test Root', ...authority), '-x509', '-days', '30', '-out', 'root.pem')

  /** Signs a certificate request, by default with the root. */
  const sign = (
    name: string,
    issuer = 'root',
    from = '20200101000000Z',
    to = '20990101000000Z',
  ) => {
    const by = ['-cert', `${issuer}.pem`, '-keyfile', `${issuer}.key`, '-notext']
    const dates = ['-startdate', from, '-enddate', to]
    openssl(
      'ca',
      '-batch',
      '-config',
      'config',
      ...by,
      ...dates,
      '-in',
      `${name}.csr`,
      '-out',
      `${name}.pem`,
    )
    return { key: read(`${name}.key`), cert: read(`${name}.pem`) }
  }
  const san = (host: string) => `subjectAltName=${/^[\d.]+$/.test(host) ? 'IP' : 'DNS'}:${host}`

  return {
    root: read('root.pem'),
    rootFile: join(cwd, 'root.pem'),
    /** A certificate for a host, signed by the root. Dates have the form `20200101000000Z`. */
    issue: (host: string, from?: string, to?: string): Certificate => {
      openssl(...request('leaf', host, san(host)), '-out', 'leaf.csr')
      return sign('leaf', 'root', from, to)
    },
    /** A certificate for a host from an intermediate authority, followed by the certificate of that authority. */
    issueBelow: (host: string): Certificate => {
      openssl(...request('middle', 'Test Middle', ...authority), '-out', 'middle.csr')
      const middle = sign('middle')
      openssl(...request('leaf', host, san(host)), '-out', 'leaf.csr')
      const leaf = sign('leaf', 'middle')
      return { key: leaf.key, cert: leaf.cert + middle.cert }
    },
    selfSigned: (host: string): Certificate => {
      openssl(...request('self', host, san(host)), '-x509', '-days', '30', '-out', 'self.pem')
      return { key: read('self.key'), cert: read('self.pem') }
    },
    dispose: () => {
      rmSync(cwd, { recursive: true })
    },
  }
}
