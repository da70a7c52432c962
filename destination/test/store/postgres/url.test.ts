import { execFileSync } from 'node:child_process'
import { generateKeyPairSync } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { openStore } from '../../../src/store/open.js'
import { parseUrl } from '../../../src/store/postgres/url.js'
import { createAuthority, hasOpenssl, type Certificate } from '../../post/certificates.js'
import { newDelivery } from '../contract.js'
import { startServer, type Server } from './server.js'

function storeError(code: string, message: RegExp): unknown {
  return expect.objectContaining({
    name: 'StoreError',
    code,
    message: expect.stringMatching(message) as unknown,
  })
}

test('a whole URL is taken apart', () => {
  const url =
    'postgresql://me:p%40ss%2F@db.example.com:5433/app?schema=hooks&connections=9&statement_timeout=2000&application_name=w1'
  expect(parseUrl(url)).toEqual({
    host: 'db.example.com',
    port: 5433,
    user: 'me',
    password: 'p@ss/',
    database: 'app',
    tls: false,
    schema: '"hooks"',
    applicationName: 'w1',
    connections: 9,
    statementTimeoutMs: 2_000,
    name: 'postgres://me@db.example.com:5433/app',
  })
})

test('what is left out is left to the environment', () => {
  expect(parseUrl('postgres:///?host=/run/postgresql')).toMatchObject({
    host: '/run/postgresql',
    port: undefined,
    user: undefined,
    password: undefined,
    database: undefined,
    tls: false,
    schema: '"hookline"',
    applicationName: 'hookline-destination',
    connections: 5,
    statementTimeoutMs: 5_000,
  })
  expect(parseUrl('postgres://[::1]/x').host).toBe('::1')
})

test('a host among the parameters replaces the one before the database, as in libpq', () => {
  const url = 'postgres://me@localhost/x?host=/cloudsql/a:b:c'
  expect(parseUrl(url)).toMatchObject({
    host: '/cloudsql/a:b:c',
    name: 'postgres://me@/cloudsql/a:b:c/x',
  })
  expect(parseUrl('postgres://db/x?host=').host).toBe('db')
})

test.each([
  ['?sslmode=prefer', /sslmode=prefer: expected verify-full, require .*, verify-ca or disable/],
  ['?sslmode=allow', /expected verify-full/],
  ['?sslmode=no-verify', /sslrootcert/],
  ['?sslmode=disable&sslrootcert=/dev/null', /no TLS: add sslmode=verify-full/],
  [
    '?sslmode=verify-full&sslrootcert=/no/such/file',
    /sslrootcert=\/no\/such\/file, which can't be read/,
  ],
  ['?ssl=true', /unknown parameter ssl: expected one of .*sslmode/],
  ['?schema=Public', /lowercase letters/],
  ['?schema=a"b', /lowercase letters/],
  ['?connections=0', /from 1 to 100/],
  ['?statement_timeout=5s', /whole number/],
  ['%zz', /%25/],
  ['?schema=pg_x', /the schema pg_x: expected a name that does not start with pg_/],
  ['?schema=a&schema=b', /the parameter schema more than once/],
  ['?sslmode=disable&sslmode=verify-full', /the parameter sslmode more than once/],
  ['?schema=a#b', /has a #.*write %23/],
  ['#', /has a #.*write %23/],
  ['%00', /has a %00/],
])('%s is refused, with what is expected, and without the password', (rest, message) => {
  expect(() => parseUrl(`postgres://me:hunter2@db/x${rest}`)).toThrow(message)
  expect(() => parseUrl(`postgres://me:hunter2@db/x${rest}`)).not.toThrow(/hunter2/)
})

test.each(['postgres://me:12/hunter2@db/x', 'postgres://me:12?hunter2@db/x'])(
  'a part of a password that is taken for a port hides the rest: %s',
  (url) => {
    expect(() => parseUrl(url)).toThrow(/no user, but an @ after the host: write %2F/)
    expect(() => parseUrl(url)).not.toThrow(/hunter2/)
  },
)

test('a password that breaks the URL is not told of', async () => {
  const opening = openStore('postgres://me:hunter2#1@db:port/x')
  await expect(opening).rejects.toEqual(storeError('unsupported', /Percent-encode/))
  const error: unknown = await opening.catch((error: unknown) => error)
  expect(JSON.stringify(error, Object.getOwnPropertyNames(error))).not.toContain('hunter2')
})

describe('what keeps a store from opening is said, and what to do', { tags: 'long' }, () => {
  let server: Server

  beforeAll(async () => {
    server = await startServer()
  })

  afterAll(() => server.dispose())

  test.each([
    ['hookline:secret', 'hookline:hunter2', 'failed', /check the user and the password/],
    ['hookline:secret', 'nobody:hunter2', 'failed', /check the user and the password/],
    ['hookline:secret', 'hookline', 'failed', /PGPASSWORD/],
    ['/postgres', '/nowhere', 'failed', /"nowhere" does not exist.*CREATE DATABASE/],
    ['/postgres', '/postgres?sslmode=verify-full', 'failed', /turn TLS on at the server/],
    ['127.0.0.1', 'no-such-host.invalid', 'failed', /check its name|name service/],
  ])('%s → %s', async (from, to, code, message) => {
    const opening = openStore(server.url().replace(from, to))
    await expect(opening).rejects.toEqual(storeError(code, message))
    await expect(opening).rejects.not.toThrow(/hunter2/)
  })

  test('nothing listens there', async () => {
    await expect(openStore('postgres://me:hunter2@127.0.0.1:1/x')).rejects.toEqual(
      storeError('failed', /^store: postgres:\/\/me@127\.0\.0\.1:1\/x: .*nothing listens there/),
    )
  })

  test('a server that is older than PostgreSQL 15', async () => {
    await server.query(`CREATE ROLE old LOGIN SUPERUSER PASSWORD 'o'`)
    await server.query('CREATE SCHEMA old')
    await server.query(`CREATE FUNCTION old.current_setting(name text) RETURNS text LANGUAGE sql AS $$
      SELECT CASE name WHEN 'server_version_num' THEN '140019' ELSE '14.19' END $$`)
    await server.query('ALTER ROLE old SET search_path = old, pg_catalog')
    await expect(openStore(server.url().replace('hookline:secret', 'old:o'))).rejects.toEqual(
      storeError('unsupported', /runs PostgreSQL 14\.19\. Use version 15 or newer/),
    )
  })

  test('a database that cannot hold all characters, and no other one', async () => {
    const create = (name: string, encoding: string) =>
      server.query(`CREATE DATABASE ${name} TEMPLATE template0 ENCODING '${encoding}' LOCALE 'C'`)
    await create('narrow', 'LATIN1')
    await expect(openStore(server.url('narrow'))).rejects.toEqual(
      storeError(
        'unsupported',
        /narrow.*encoding is LATIN1: expected UTF8.*CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0/,
      ),
    )
    // This one stores all bytes as they are.
    await create('bytes', 'SQL_ASCII')
    const store = await openStore(server.url('bytes'))
    await store.put([newDelivery({ messageId: 'euro', event: '10 €' })])
    expect(await store.trace('euro')).toMatchObject([{ event: '10 €' }])
    await store.close()
  })

  test('a limit of connections, and a database that takes none', async () => {
    await server.query(`CREATE ROLE limited LOGIN PASSWORD 'l' CONNECTION LIMIT 0`)
    await server.query(`CREATE ROLE guest LOGIN PASSWORD 'g'`)
    await server.query('CREATE DATABASE small CONNECTION LIMIT 0')
    await server.query('CREATE DATABASE closed ALLOW_CONNECTIONS false')
    const openAs = (user: string, database?: string) =>
      openStore(server.url(database).replace('hookline:secret', user))
    await expect(openAs('limited:l')).rejects.toEqual(
      storeError('failed', /for role "limited": .*ALTER ROLE … CONNECTION LIMIT/),
    )
    await expect(openAs('guest:g', 'small')).rejects.toEqual(
      storeError('failed', /for database "small": .*ALTER DATABASE … CONNECTION LIMIT/),
    )
    await expect(openAs('hookline:secret', 'closed')).rejects.toEqual(
      storeError('failed', /not currently accepting connections: .*ALLOW_CONNECTIONS true/),
    )
  })

  test('a server that does not wait for its disk', async () => {
    await server.query(`CREATE ROLE hasty LOGIN SUPERUSER PASSWORD 'h'`)
    await server.query('ALTER ROLE hasty SET synchronous_commit = off')
    await expect(openStore(server.url().replace('hookline:secret', 'hasty:h'))).rejects.toEqual(
      storeError('unsupported', /would lose accepted calls.*ALTER ROLE/),
    )
  })
})

describe.skipIf(!hasOpenssl())('with TLS', { tags: 'long' }, () => {
  const folder = mkdtempSync(join(tmpdir(), 'hookline-tls-'))
  let server: Server
  let root: string

  beforeAll(async () => {
    const authority = createAuthority()
    root = join(folder, 'root.pem')
    writeFileSync(root, authority.root)
    const own = authority.issue('worker')
    writeFileSync(join(folder, 'own.pem'), own.cert)
    writeFileSync(join(folder, 'own-key.pem'), own.key)
    const ssl = { ssl: 'on', ssl_ca_file: root, ...files(authority.issue('localhost')) }
    server = await startServer(ssl)
    authority.dispose()
  })

  afterAll(async () => {
    await server.dispose()
    rmSync(folder, { recursive: true })
  })

  /** Writes the files and makes `nobody` their owner: PostgreSQL refuses a key that another user owns. */
  function files({ key, cert }: Certificate): Record<string, string> {
    const paths = { ssl_key_file: join(folder, 'key.pem'), ssl_cert_file: join(folder, 'cert.pem') }
    writeFileSync(paths.ssl_key_file, key, { mode: 0o600 })
    writeFileSync(paths.ssl_cert_file, cert)
    if (process.getuid?.() === 0) execFileSync('chown', ['-R', 'nobody', folder])
    return paths
  }

  const url = (host: string, parameters: string): string =>
    server.url().replace('127.0.0.1', host) + parameters

  test('a certificate for the host, of an authority that was given, is taken', async () => {
    for (const mode of ['verify-full', 'require', 'verify-ca']) {
      const store = await openStore(url('localhost', `?sslmode=${mode}&sslrootcert=${root}`))
      const [row] = await server.query<{ tls: boolean }>(
        `SELECT bool_and(ssl) AS tls FROM pg_stat_ssl JOIN pg_stat_activity USING (pid)
         WHERE application_name = 'hookline-destination'`,
      )
      expect(row).toEqual({ tls: true })
      await store.close()
    }
  })

  test('a file that cannot be used is refused with its parameter and what was expected', () => {
    const file = (name: string) => join(folder, name)
    writeFileSync(file('empty.pem'), '')
    writeFileSync(
      file('broken.pem'),
      '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n',
    )
    const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
    const pkcs8 = { type: 'pkcs8', format: 'pem' } as const
    writeFileSync(file('other-key.pem'), privateKey.export(pkcs8))
    const encryption = { cipher: 'aes-256-cbc', passphrase: 'x' }
    writeFileSync(file('encrypted.pem'), privateKey.export({ ...pkcs8, ...encryption }))
    const own = `sslcert=${file('own.pem')}`
    for (const [parameters, message] of [
      [
        `sslrootcert=${file('empty.pem')}`,
        /sslrootcert=.*empty\.pem.* no certificate: expected PEM/,
      ],
      [`sslrootcert=${file('own-key.pem')}`, /sslrootcert=.*no certificate/],
      [`sslrootcert=${file('broken.pem')}`, /sslrootcert=.*can't be decoded/],
      [own, /sslcert without sslkey/],
      [`sslkey=${file('own-key.pem')}`, /sslkey without sslcert/],
      [`sslcert=${file('empty.pem')}&sslkey=${file('own-key.pem')}`, /sslcert=.*no certificate/],
      [`${own}&sslkey=${file('empty.pem')}`, /sslkey=.*no private key.*expected PEM/],
      [`${own}&sslkey=${file('encrypted.pem')}`, /sslkey=.*encrypted: expected.*openssl pkey/],
      [`${own}&sslkey=${file('other-key.pem')}`, /sslkey=.*not the key of.*sslcert=/],
    ] as const) {
      const given = `${server.url()}?sslmode=verify-full&${parameters}`
      expect(() => parseUrl(given), parameters).toThrow(message)
    }
  })

  test('its own certificate is sent to the server', async () => {
    const own = `sslcert=${join(folder, 'own.pem')}&sslkey=${join(folder, 'own-key.pem')}`
    const store = await openStore(
      url('localhost', `?sslmode=verify-full&sslrootcert=${root}&${own}`),
    )
    const rows = await server.query(
      `SELECT DISTINCT client_dn FROM pg_stat_ssl JOIN pg_stat_activity USING (pid)
       WHERE application_name = 'hookline-destination'`,
    )
    // The connections of another test may still be closing.
    expect(rows).toContainEqual({ client_dn: '/CN=worker' })
    await store.close()
  })

  test('one of an authority that is not known is refused', async () => {
    for (const mode of ['verify-full', 'require', 'verify-ca']) {
      await expect(openStore(url('localhost', `?sslmode=${mode}`))).rejects.toEqual(
        storeError('failed', /give .*sslrootcert/),
      )
    }
  })

  test('one for another name is refused, unless no name is asked for', async () => {
    const parameters = `sslrootcert=${root}`
    for (const mode of ['verify-full', 'require']) {
      const opening = openStore(url('127.0.0.1', `?sslmode=${mode}&${parameters}`))
      await expect(opening).rejects.toEqual(
        storeError('failed', /not in the cert's list: its certificate is for another name/),
      )
    }
    const store = await openStore(url('127.0.0.1', `?sslmode=verify-ca&${parameters}`))
    await store.close()
  })
})
