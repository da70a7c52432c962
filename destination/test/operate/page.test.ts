import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { addPageRoutes } from '../../src/operate/page.js'
import { createServer } from '../../src/http/server.js'
import { settingsFor, start } from '../run.js'

const ignore = () => undefined
const server = createServer({ warn: ignore, error: ignore }, 'There is a page.')
let url = ''
let ancestors: string[] = []
beforeAll(async () => {
  expect(addPageRoutes(server.app, () => ancestors)).toBe(true)
  url = await server.listen('127.0.0.1', 0)
})
afterAll(() => server.close())

const assetsOf = (html: string) =>
  Array.from(html.matchAll(/"(assets\/[^"]+)"/g), ([, path = '']) => path)

async function page() {
  const response = await fetch(url)
  return { response, html: await response.text() }
}

describe('the page', () => {
  test('loads nothing but its own files, and may be in nobody’s frame', async () => {
    const { response, html } = await page()
    expect(response.status).toBe(200)
    expect(response.headers.get('content-type')).toBe('text/html; charset=utf-8')
    expect(response.headers.get('content-security-policy')).toBe(
      "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; " +
        "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    )
    expect(response.headers.get('x-content-type-options')).toBe('nosniff')
    expect(response.headers.get('referrer-policy')).toBe('no-referrer')
    expect(html).not.toMatch(/https?:\/\/(?!www\.w3\.org)|<script>|<style|style=/)
    expect(assetsOf(html)).toHaveLength(2)
  })

  test('of tenants is the same, and may be in the frames that the settings name', async () => {
    const { html } = await page()
    const policyOf = async () => {
      const response = await fetch(`${url}/portal`)
      expect(await response.text()).toBe(html)
      return response.headers.get('content-security-policy') ?? ''
    }
    const closed = await policyOf()
    expect(closed).toMatch(/; frame-ancestors 'none'$/)
    ancestors = ['https://app.example.com', 'https://*.example.org']
    expect(await policyOf()).toBe(
      closed.replace(/'none'$/, 'https://app.example.com https://*.example.org'),
    )
    expect((await page()).response.headers.get('content-security-policy')).toBe(closed)
    ancestors = []
  })

  test('of tenants is found with a slash at its end, also below a path of a proxy', async () => {
    const { status, headers } = await fetch(`${url}/portal/`, { redirect: 'manual' })
    expect([status, headers.get('location')]).toEqual([302, '../portal'])
  })

  test('is asked for each time, and sent only when it has changed', async () => {
    const { response } = await page()
    expect(response.headers.get('cache-control')).toBe('no-cache')
    const etag = response.headers.get('etag') ?? ''
    const again = await fetch(url, { headers: { 'if-none-match': etag } })
    expect([again.status, await again.text()]).toEqual([304, ''])
    const other = await fetch(url, { headers: { 'if-none-match': '"other"' } })
    expect(other.status).toBe(200)
  })

  test('has files that browsers keep for ever, as their names tell what is in them', async () => {
    const { html } = await page()
    for (const path of assetsOf(html)) {
      expect(path).toMatch(/^assets\/[a-z]+-[A-Z0-9]{8}\.(js|css)$/)
      const response = await fetch(`${url}/${path}`)
      expect(response.status).toBe(200)
      expect(response.headers.get('cache-control')).toBe('public, max-age=31536000, immutable')
      expect(response.headers.get('content-type')).toMatch(
        /^text\/(javascript|css); charset=utf-8$/,
      )
    }
    expect((await fetch(`${url}/assets/other.js`)).status).toBe(404)
    expect((await fetch(`${url}/assets/..%2findex.html`)).status).toBe(404)
  })

  test('weighs less than 63 KB of script, gzipped, until a destination or the settings are opened', async () => {
    const { html } = await page()
    const script = assetsOf(html).find((path) => path.endsWith('.js')) ?? ''
    const text = await (await fetch(`${url}/${script}`)).text()
    // What the script imports at once, and what it imports later.
    const atOnce = Array.from(text.matchAll(/(?:from|import)"\.\/([^"]+)"/g), ([, name]) => name)
    expect(text).toMatch(/import\("\.\/hookline-[A-Z0-9]{8}\.js"\)/)
    const paths = [script, ...atOnce.map((name) => `assets/${name}`)]
    let bytes = 0
    for (const path of paths) {
      const { headers } = await fetch(`${url}/${path}`, { method: 'HEAD' })
      expect(Number(headers.get('content-length'))).toBeGreaterThan(0)
      bytes += Number(headers.get('content-length'))
    }
    expect(bytes).toBeLessThan(63_000)
  })

  test('comes as it is to who takes no gzip', async () => {
    const plain = await fetch(url, { headers: { 'accept-encoding': 'identity' } })
    expect(plain.headers.get('content-encoding')).toBeNull()
    expect(await plain.text()).toContain('<div id="app">')
  })

  test('is served on the address of whoever runs the destination, and not where calls go', async () => {
    const settings = settingsFor([], { adminListen: { host: '127.0.0.1', port: 0 } })
    const running = await start(settings)
    expect((await fetch(running.adminUrl)).status).toBe(200)
    expect((await fetch(running.url)).status).toBe(404)
  })
  test('is missing, and nothing else is, where it was not built', () => {
    const { app } = createServer({ warn: ignore, error: ignore }, '')
    expect(addPageRoutes(app, () => [], '/nowhere')).toBe(false)
  })
})
