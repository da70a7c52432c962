// A whole destination for one test: its settings, a function that starts it, and calls to send to it.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import { startDestination, type RunningDestination } from '../src/destination.js'
import type { Log } from '../src/observe/log.js'
import type { Destination, Settings } from '../src/settings/settings.js'
import { startEndpoint, type Answer, type TestEndpoint } from './endpoint.js'

export { freePort } from '../../test/ports.js'

export const KEY = 'web-key'
export const ADMIN_TOKEN = 'admin-token-0123456789'
export const OPERATOR_TOKEN = 'operator-token-0123456789'

export const silent: Log = {
  info: () => undefined,
  warn: () => undefined,
  error: () => undefined,
  debug: () => undefined,
}

/**
 * A log that keeps its warnings, and apart from them the messages with an attempt that had no answer in time. On a machine that is
 * busy for seconds there may be some, and these are sent again.
 */
export function keepWarnings() {
  const warnings: string[] = []
  const late = new Set<string>()
  const warn = (details: object, message: string) => {
    const { messageId = '', code } = details as { messageId?: string; code?: string }
    if (message === 'attempt' && code === 'timeout') late.add(messageId)
    else warnings.push(message)
  }
  return { log: { ...silent, warn }, warnings, late }
}

/** The messages that came more than once although each attempt at them had an answer in time. */
export function repeated(ids: readonly unknown[], late: ReadonlySet<unknown>): unknown[] {
  return ids.filter((id, index) => ids.indexOf(id) < index && !late.has(id))
}

/** Registers a clean-up. It runs at the end of the test, or later if several tests share what it ends. */
export type Later = (cleanUp: () => unknown) => void

export const withTheTest: Later = (cleanUp) => {
  onTestFinished(async () => {
    await cleanUp()
  })
}

export async function endpoint(...script: Answer[]): Promise<TestEndpoint> {
  const started = await startEndpoint(script.length > 0 ? script : [204])
  onTestFinished(() => started[Symbol.asyncDispose]())
  return started
}

/** The settings of a destination with the given endpoints. */
export function destination(
  endpoints: { url: string }[],
  changes: Partial<Destination> = {},
): Destination {
  const webhooks = endpoints.map(({ url }) => ({ url, headers: {}, concurrency: 128 }))
  return {
    name: 'crm',
    sources: ['web'],
    enabled: true,
    sharedSecret: 's3cret',
    webhooks,
    ...changes,
  }
}

export function settingsFor(
  destinations: Destination[],
  changes: Partial<Settings> = {},
  later: Later = withTheTest,
): Settings {
  const folder = mkdtempSync(join(tmpdir(), 'hookline-destination-'))
  later(() => {
    rmSync(folder, { recursive: true })
  })
  return {
    listen: { host: '127.0.0.1', port: 0 },
    sources: [{ name: 'web', writeKey: KEY }],
    destinations,
    store: `sqlite:${join(folder, 'store.db')}`,
    adminToken: ADMIN_TOKEN,
    allowNetworks: ['127.0.0.0/8'],
    ca: [],
    retentionMs: 7 * 86_400_000,
    ...changes,
  }
}

export async function start(
  settings: Settings,
  log = silent,
  later: Later = withTheTest,
): Promise<RunningDestination> {
  const running = await startDestination(settings, log)
  later(() => running.close())
  return running
}

export async function post(
  { url }: Pick<RunningDestination, 'url'>,
  calls: object[],
  key = KEY,
): Promise<Response> {
  return await fetch(`${url}/v1/batch`, {
    method: 'POST',
    headers: { Authorization: `Basic ${btoa(`${key}:`)}` },
    body: JSON.stringify({ batch: calls }),
  })
}

export const track = (messageId: string, fields: object = {}) => ({
  type: 'track',
  userId: 'u1',
  event: 'Signed Up',
  messageId,
  timestamp: '2026-01-02T03:04:05.678Z',
  ...fields,
})
