import { execFile } from 'node:child_process'
import { createServer, type ServerOptions } from 'node:https'
import type { Socket } from 'node:net'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, inject, onTestFinished, test, vi } from 'vitest'
import { createNetwork, type NetworkOptions } from '../../src/post/network.js'
import { createAuthority, hasOpenssl, type Certificate } from './certificates.js'
import { DEADLINE_MS, listen, listenTcp, post, posterTo } from './sockets.js'

if (!hasOpenssl()) console.warn('no openssl here: the tests of certificates are left out')

describe.skipIf(!hasOpenssl())('an https endpoint', () => {
  let authority: ReturnType<typeof createAuthority>
  beforeAll(() => {
    authority = createAuthority()
  })
  afterAll(() => {
    authority.dispose()
  })

  /** Sends two requests to a server with this certificate. Resolves with an outcome and what the server has seen. */
  async function postTo(
    certificate: ServerOptions,
    network: Partial<NetworkOptions> = {},
    host = 'hook.test',
  ) {
    let requests = 0
    const { port } = await listen(
      createServer(certificate, (request, response) => {
        requests++
        request.resume().on('end', () => response.end('ok'))
      }),
    )
    const poster = posterTo(`https://${host}:${port}/`, {
      lookup: (_, answer) => {
        answer(null, [{ address: '127.0.0.1', family: 4 }])
      },
      ...network,
    })
    const outcome = await post(poster)
    // The second request checks that a resumed TLS session does not skip the check of the certificate.
    expect((await post(poster)).code).toBe(outcome.code)
    return { outcome, port, requests: () => requests }
  }

  test('with a private authority is reached if the authority is given', async () => {
    const certificate = authority.issue('hook.test')
    const { outcome, requests } = await postTo(certificate, { ca: [authority.root] })
    expect(outcome).toMatchObject({ code: 'delivered', status: 200, response: 'ok' })
    expect(requests()).toBe(2)
  })

  test('with an authority in between is reached if it sends that along', async () => {
    const { outcome } = await postTo(authority.issueBelow('hook.test'), { ca: [authority.root] })
    expect(outcome.code).toBe('delivered')
  })

  test('with a self-signed certificate is reached if just that one is given', async () => {
    const certificate = authority.selfSigned('hook.test')
    const { outcome } = await postTo(certificate, { ca: [certificate.cert] })
    expect(outcome.code).toBe('delivered')
  })

  test('that is an address is reached if its certificate is made out to it', async () => {
    const certificate = authority.issue('127.0.0.1')
    const { outcome } = await postTo(certificate, { ca: [authority.root] }, '127.0.0.1')
    expect(outcome.code).toBe('delivered')
  })

  test.each([
    ['NODE_EXTRA_CA_CERTS', [], 'NODE_EXTRA_CA_CERTS'],
    ['the file that --use-openssl-ca reads', ['--use-openssl-ca'], 'SSL_CERT_FILE'],
  ])(
    'is reached by the authorities of %s, whatever the settings add',
    async (_name, options, variable) => {
      const own = authority.selfSigned('127.0.0.1')
      const ports = [authority.issue('127.0.0.1'), own, authority.selfSigned('127.0.0.1')].map(
        async (certificate) => {
          const server = createServer(certificate, (request, response) => {
            request.resume().on('end', () => response.end('ok'))
          })
          return (await listen(server)).port
        },
      )
      const { stdout } = await promisify(execFile)(
        process.execPath,
        [
          ...options,
          `${import.meta.dirname}/trusting.js`,
          inject('compiledDir'),
          own.cert,
          ...(await Promise.all(ports)).map((port) => `https://127.0.0.1:${port}/`),
        ],
        { env: { ...process.env, [variable]: authority.rootFile } },
      )
      expect(stdout).toBe('delivered delivered tls_error\n')
    },
  )

  test('is reached although the file of NODE_EXTRA_CA_CERTS is missing', async () => {
    vi.stubEnv('NODE_EXTRA_CA_CERTS', `${authority.rootFile}.missing`)
    onTestFinished(() => void vi.unstubAllEnvs())
    const { outcome } = await postTo(authority.issue('hook.test'), { ca: [authority.root] })
    expect(outcome.code).toBe('delivered')
  })

  const withRoot = (certificate: Certificate) => ({
    ...certificate,
    cert: certificate.cert + authority.root,
  })

  // Real handshakes show that this version of Node gives the codes that the table of causes expects.
  test.each<[string, () => Certificate, trusted: boolean, cause: string]>([
    [
      'DEPTH_ZERO_SELF_SIGNED_CERT',
      () => authority.selfSigned('hook.test'),
      false,
      'is self-signed',
    ],
    [
      'SELF_SIGNED_CERT_IN_CHAIN',
      () => withRoot(authority.issue('hook.test')),
      false,
      'comes from an unknown authority',
    ],
    [
      'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
      () => authority.issue('hook.test'),
      false,
      'comes without the certificate of its issuer',
    ],
    [
      'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
      () => authority.issueBelow('hook.test'),
      false,
      'comes from an unknown issuer',
    ],
    [
      'CERT_HAS_EXPIRED',
      () => authority.issue('hook.test', '20200101000000Z', '20200201000000Z'),
      true,
      'has expired',
    ],
    [
      'CERT_NOT_YET_VALID',
      () => authority.issue('hook.test', '20980101000000Z', '20990101000000Z'),
      true,
      'is not valid yet',
    ],
    [
      'ERR_TLS_CERT_ALTNAME_INVALID',
      () => authority.issue('other.test'),
      true,
      'is for another host name',
    ],
  ])('with %s gets nothing, and is told why', async (code, issue, trusted, cause) => {
    const ca = trusted ? [authority.root] : []
    const { outcome, requests, port } = await postTo(issue(), { ca })
    const verdict = code === 'CERT_NOT_YET_VALID' ? 'retry' : 'refused'
    expect(outcome).toMatchObject({ code: 'tls_error', verdict, status: undefined })
    expect(outcome.error).toContain(`The certificate of hook.test:${port} ${cause} (${code}: `)
    expect(outcome.error).toContain('nothing was sent.')
    expect(requests()).toBe(0)
  })

  test('with a TLS version that is too old is tried again', async () => {
    const old = { ...authority.issue('hook.test'), maxVersion: 'TLSv1.1' as const }
    const { outcome } = await postTo({ ...old, minVersion: 'TLSv1.1' }, { ca: [authority.root] })
    expect(outcome).toMatchObject({ code: 'tls_error', verdict: 'retry' })
    expect(outcome.error).toMatch(
      /^The TLS handshake with hook\.test:\d+ failed \([^:()]*protocol version\): nothing was sent\. .*TLS 1\.2 or 1\.3/,
    )
  })

  const wanting = () => ({
    ...authority.issue('hook.test'),
    ...{ requestCert: true, rejectUnauthorized: true, ca: [authority.root] },
  })

  test('that wants a client certificate is named, although TLS 1.3 tells it only after the handshake', async () => {
    const { outcome, requests, port } = await postTo(wanting(), { ca: [authority.root] })
    expect(outcome).toMatchObject({ code: 'tls_error', verdict: 'retry', status: undefined })
    expect(outcome.error).toContain(`hook.test:${port} asks for a client certificate (`)
    expect(requests()).toBe(0)
  })

  test('that may want a client certificate, which TLS 1.2 does not tell, is said to, without the text of OpenSSL', async () => {
    const { outcome } = await postTo(
      { ...wanting(), maxVersion: 'TLSv1.2' },
      { ca: [authority.root] },
    )
    expect(outcome).toMatchObject({ code: 'tls_error', verdict: 'retry' })
    expect(outcome.error).toMatch(/ failed \([^:()]*alert handshake failure\): nothing was sent\. /)
    expect(outcome.error).toMatch(/It may .* or ask for a client certificate/)
  })

  test('that has only HTTP/2 is named as such', async () => {
    const onlyNew = { ...authority.issue('hook.test'), ALPNProtocols: ['h2'] }
    const { outcome } = await postTo(onlyNew, { ca: [authority.root] })
    expect(outcome).toMatchObject({ code: 'tls_error', verdict: 'retry' })
    expect(outcome.error).toContain('The endpoint must support HTTP/1.1')
  })

  test('gets no plain text if its URL starts with http', async () => {
    const { port } = await listen(
      createServer(authority.issue('hook.test'), (_, response) => response.end()),
    )
    const outcome = await post(posterTo(`http://127.0.0.1:${port}/`))
    expect(outcome).toMatchObject({ verdict: 'retry', status: undefined })
    expect(outcome.code).toMatch(/^connection_/)
  })
})

test.each(['', 'garbage', '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----'])(
  'the authority %j is an error that says what is meant',
  (pem) => {
    expect(() => createNetwork({ allowNetworks: [], ca: [pem] })).toThrow(
      'ca[0] must be a certificate in PEM',
    )
  },
)

test('an http server on an https URL is named as such, and gets no request', async () => {
  const { port } = await listenTcp((socket: Socket) => {
    socket.once('data', () => socket.end('HTTP/1.1 400 Bad Request\r\n\r\n'))
  })
  const outcome = await post(posterTo(`https://127.0.0.1:${port}/`))
  expect(outcome).toMatchObject({ code: 'tls_error', verdict: 'retry', status: undefined })
  expect(outcome.error).toMatch(
    / failed \(wrong version number\): .* seems to speak plain HTTP\. Check the scheme/,
  )
})

test('a handshake that never ends runs out of time, with nothing sent', async () => {
  const { port } = await listenTcp(() => undefined)
  const poster = posterTo(`https://127.0.0.1:${port}/`, { deadlineMs: DEADLINE_MS })
  const outcome = await post(poster)
  expect(outcome).toMatchObject({ code: 'timeout', verdict: 'retry' })
  expect(outcome.error).toContain('nothing was sent')
})

test('a handshake that is cut off is a reset', async () => {
  const { port } = await listenTcp((socket) => {
    socket.once('data', () => socket.end())
  })
  const outcome = await post(posterTo(`https://127.0.0.1:${port}/`))
  expect(outcome).toMatchObject({ code: 'connection_reset', verdict: 'retry' })
})
