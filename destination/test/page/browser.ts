// A real Chromium, that looks at a real destination.
import { existsSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import type { AxeResults } from 'axe-core'
import { chromium, type Browser, type BrowserContextOptions, type Page } from 'playwright-core'
import { afterAll, beforeAll, expect, onTestFinished } from 'vitest'

const PATHS = ['/usr/bin/chromium', '/usr/bin/google-chrome']

/** Where the browser is; `undefined` where there is none, and then says so. */
export const chromiumPath = PATHS.find((path) => existsSync(path))
if (chromiumPath === undefined) {
  console.warn('no Chromium here: the tests of the page in a browser are left out')
}

/** A name that leads the browser to this machine. */
export const NAME = 'hookline.test'

let browser: Browser | undefined

/** For the length of a file. */
export function useBrowser(): void {
  beforeAll(async () => {
    if (chromiumPath === undefined) return
    // Without the sandbox, since that needs more rights than a container gives.
    const args = ['--no-sandbox', `--host-resolver-rules=MAP ${NAME} 127.0.0.1`]
    browser = await chromium.launch({ executablePath: chromiumPath, args })
  })
  afterAll(() => browser?.close())
}

/**
 * A tab of its own. When the test ends, there must have been no error and no request to anybody else.
 *
 * @param forgiven - Errors that are no fault of the page: the browser reports every answer that is no 2xx.
 * @param friends - Other hosts that may be asked, such as that of a page in a frame.
 */
export async function open(
  url: string,
  options: BrowserContextOptions = {},
  forgiven?: RegExp,
  friends: readonly string[] = [],
): Promise<Page> {
  if (browser === undefined) throw new Error('useBrowser() comes first.')
  const context = await browser.newContext({ viewport: { width: 1280, height: 860 }, ...options })
  const page = await context.newPage()
  page.setDefaultTimeout(20_000)
  const errors: string[] = []
  const strangers: string[] = []
  page.on('console', (message) => {
    if (message.type() === 'error' || message.type() === 'warning') errors.push(message.text())
  })
  page.on('pageerror', (error) => errors.push(String(error)))
  page.on('dialog', (dialog) => {
    // The browser asks by itself before a page is left that would lose something.
    if (dialog.type() !== 'beforeunload') errors.push(`a dialog: ${dialog.message()}`)
    void dialog.dismiss()
  })
  const hosts = [new URL(url).host, ...friends]
  context.on('request', (request) => {
    const asked = new URL(request.url())
    if (asked.protocol !== 'data:' && !hosts.includes(asked.host)) strangers.push(request.url())
  })
  onTestFinished(async ({ task }) => {
    if (task.result?.state === 'fail') {
      console.log(`${task.name}: the page is at ${page.url()}, and says:`)
      console.log(await page.locator('body').innerText().catch(String))
    }
    await context.close()
    expect(strangers).toEqual([])
    expect(errors.filter((error) => forgiven?.test(error) !== true)).toEqual([])
  })
  await page.goto(url)
  return page
}

/** Holds back what replaces or changes something. */
export async function holdChanges(page: Page, path: string) {
  const held: (() => void)[] = []
  await page.route(path, async (route) => {
    if (['PUT', 'PATCH'].includes(route.request().method())) {
      await new Promise<void>((resolve) => held.push(resolve))
    }
    await route.continue()
  })
  return {
    /** Waits until a change is held back. */
    asked: () => expect.poll(() => held.length).toBe(1),
    /** Lets it go on. */
    release: () => held.shift()?.(),
  }
}

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')

/**
 * What keeps people out who see, hear or move otherwise: each rule that is broken, and where.
 *
 * @param rules - Those to check; all without it.
 */
export async function barriers(page: Page, rules?: string[]): Promise<string[]> {
  await page.evaluate(axe)
  const options = JSON.stringify(rules ? { runOnly: rules } : {})
  const { violations } = await page.evaluate<AxeResults>(`axe.run(${options})`)
  return violations.flatMap(({ id, nodes }) => nodes.map(({ html }) => `${id}: ${html}`))
}

/** What has the focus, as text. */
export const focused = (page: Page): Promise<string> =>
  page.evaluate<string>('document.activeElement.innerText || document.activeElement.id')
