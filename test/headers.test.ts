import { describe, expect, test } from 'vitest'
import { Analytics, OptionError } from '../src/index.js'
import { checkOptions } from '../src/options.js'
import { createClient, runScript, startCollector, thrownBy, trackMany } from './collector.js'

function refusal(headers: unknown): OptionError {
  const error = thrownBy(() => new Analytics('k', { headers: headers as Record<string, string> }))
  expect(error).toBeInstanceOf(OptionError)
  return error as OptionError
}

describe('on the wire', () => {
  test('each request has the extra headers beside those of the client, a retried one too', async () => {
    const collector = await startCollector()
    collector.script(503)
    const headers = { 'X-Team': 'shop', 'x-trace': 'a\tb c', 'X-Empty': '' }
    const analytics = createClient(collector, { headers, flushAt: 1 })
    trackMany(analytics, 1)
    await analytics.flush()
    expect(collector.arrivals).toHaveLength(2)
    for (const arrival of collector.arrivals) {
      expect(arrival.headers).toMatchObject({
        'x-team': 'shop',
        'x-trace': 'a\tb c',
        'x-empty': '',
        authorization: expect.stringMatching(/^Basic /) as string,
        'content-type': 'application/json',
        'user-agent': expect.stringMatching(/^hookline\//) as string,
      })
    }
    expect(collector.arrivals[1]?.headers).toMatchObject({ 'x-retry-count': '1' })
  })

  test('an object that is changed after construction changes no request', async () => {
    const collector = await startCollector()
    const headers: Record<string, string> = { 'X-Team': 'shop' }
    const analytics = createClient(collector, { headers, flushAt: 1 })
    headers['X-Team'] = 'changed'
    headers['X-Late'] = 'yes'
    trackMany(analytics, 1)
    await analytics.flush()
    expect(collector.arrivals[0]?.headers).toMatchObject({ 'x-team': 'shop' })
    expect(collector.arrivals[0]?.headers).not.toHaveProperty('x-late')
  })

  test('DEBUG=analytics shows neither their names nor their values', async () => {
    const collector = await startCollector()
    const { code, stderr } = await runScript(
      `
      const analytics = new Analytics('k', { headers: { 'X-Hidden-Name': 'hidden-value' } })
      analytics.track({ userId: 'u', event: 'e' })
      await analytics.close()
      `,
      { env: { DEBUG: 'analytics', ANALYTICS_ENDPOINT: collector.url } },
    )
    expect(code).toBe(0)
    expect(collector.arrivals[0]?.headers).toMatchObject({ 'x-hidden-name': 'hidden-value' })
    expect(stderr).toMatch(/enqueue/)
    expect(stderr).not.toMatch(/hidden/i)
  })
})

describe('a header that the client or HTTP itself sets is refused in any case of its letters', () => {
  test.each([
    ['Authorization', 'pass the key as the first argument'],
    ['Accept-Encoding', 'leave it out'],
    ['Content-Encoding', 'use the option gzip'],
    ['Content-Length', 'leave it out'],
    ['Content-Type', 'leave it out'],
    ['Host', 'option endpoint'],
    ['User-Agent', 'leave it out'],
    ['X-Retry-Count', 'leave it out'],
    ['Connection', 'leave it out'],
    ['Expect', 'leave it out'],
    ['Keep-Alive', 'leave it out'],
    ['Proxy-Connection', 'leave it out'],
    ['TE', 'leave it out'],
    ['Trailer', 'leave it out'],
    ['Transfer-Encoding', 'leave it out'],
    ['Upgrade', 'leave it out'],
    ['Proxy-Authorization', 'URL of the proxy'],
  ])('%s', (name, advice) => {
    for (const spelt of [name, name.toLowerCase(), name.toUpperCase()]) {
      const { option, message } = refusal({ 'X-Fine': 'v', [spelt]: 'v' })
      expect(option).toBe(`headers.${spelt}`)
      expect(message).toContain(`headers cannot have "${spelt}". `)
      expect(message).toContain(advice)
    }
  })
})

describe('what RFC 9110 does not allow is refused', () => {
  test.each(['', ' ', 'X Team', 'X-Team:', 'X\r\nEvil', 'X-Té', '(x)', '"x"', 'x\0'])(
    'as a name: %j',
    (name) => {
      const { option, message } = refusal({ [name]: 'v' })
      expect(option).toBe(`headers.${name}`)
      expect(message).toContain(`got ${JSON.stringify(name)}`)
    },
  )

  test.each([
    'a\r\nEvil: 1',
    'a\nb',
    'a\rb',
    '\n',
    ' a',
    'a ',
    '\ta',
    'a\0b',
    'a\x7f',
    'é',
    '日本',
  ])('as a value: %j, and the message does not repeat it', (value) => {
    const { option, message } = refusal({ 'X-Team': value.replace('a', 's3cret'), 'X-Other': 'v' })
    expect(option).toBe('headers.X-Team')
    expect(message).toContain('The value of "X-Team" has other characters: trim it')
    expect(message).not.toContain('s3cret')
  })

  test.each([undefined, null, 7, true, ['a'], {}])('as a value: %j is no string', (value) => {
    const { option, message } = refusal({ 'X-Team': value })
    expect(option).toBe('headers.X-Team')
    expect(message).toMatch(/plain object of strings, got .+ for "X-Team"/)
  })

  test('as two names that differ in case only', () => {
    const { option, message } = refusal({ 'X-Team': 'a', 'x-team': 'b' })
    expect(option).toBe('headers.x-team')
    expect(message).toContain('"x-team" came twice')
  })
})

test('every byte that RFC 9110 allows in a name is accepted', () => {
  const headers = { "!#$%&'*+-.^_`|~09azAZ": '!~ \t~' }
  expect(checkOptions('k', { headers }).headers).toEqual(headers)
})
