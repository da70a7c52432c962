// Random changes by several processes of one store, compared with a plain map.
import { isDeepStrictEqual } from 'node:util'
import fc from 'fast-check'
import { afterAll, describe, expect, test, vi } from 'vitest'
import { startDestination, type RunningDestination } from '../../src/destination.js'
import type { Settings } from '../../src/settings/settings.js'
import { KEY, post, settingsFor, silent, track, type Later } from '../run.js'
import { startServer } from '../store/postgres/server.js'
import { ask, SETTINGS_KEY, type Answered } from './api.js'
import { rounds } from '../rounds.js'

const NAMES = ['a', 'b', 'c']

/** A tenant of the settings file, so that there is always one. */
const HOUSE = 'house'

/** What the map knows of a source, destination or tenant. */
interface Known {
  version: number
  settings: Record<string, unknown>
  /** The write keys of a source, or the secrets of a destination, the oldest first. */
  secrets: string[]
}

const KINDS = ['sources', 'destinations', 'tenants'] as const
type Kind = (typeof KINDS)[number]

const anyStep = fc.record({
  act: fc.constantFrom('put', 'put', 'put', 'patch', 'patch', 'rotate', 'revoke', 'delete'),
  kind: fc.constantFrom<Kind>('sources', 'sources', 'destinations', 'destinations', 'tenants'),
  name: fc.constantFrom(...NAMES),
  limit: fc.integer({ min: 1, max: 3 }),
  takes: fc.subarray([...NAMES, 'web']),
  tenant: fc.constantFrom(undefined, undefined, HOUSE, HOUSE, ...NAMES),
  condition: fc.constantFrom('none', 'none', 'right', 'stale', 'new'),
  process: fc.nat(1),
  restarts: fc.constantFrom(...Array.from({ length: 11 }, () => false), true),
})
type Step = typeof anyStep extends fc.Arbitrary<infer S> ? S : never

/** A tenant has no secrets that could be rotated. */
const step = anyStep.map((one): Step => {
  const isRotation = one.act === 'rotate' || one.act === 'revoke'
  return one.kind === 'tenants' && isRotation ? { ...one, act: 'delete' } : one
})

/** The settings that the API shows for a step's settings, and what a client sends. */
function settingsOf({ act, kind, name, limit, takes, tenant }: Step) {
  if (kind === 'tenants') {
    const quotas = { concurrency: limit }
    const portal = { editUrls: limit > 1 }
    return { sent: { quotas, portal }, shown: { name, quotas, portal } }
  }
  const owner = tenant === undefined ? {} : { tenant }
  const sentOwner = act === 'patch' ? { tenant: tenant ?? null } : owner
  if (kind === 'sources') {
    const sent = { ...sentOwner, rateLimit: { callsPerSecond: limit * 1_000 } }
    return { sent, shown: { name, ...owner, rateLimit: sent.rateLimit } }
  }
  const endpoint = { url: `https://${name}.example.com/`, concurrency: limit }
  const webhooks = [{ ...endpoint, headers: {} }]
  return {
    sent: { ...sentOwner, sources: takes, webhooks: [endpoint] },
    shown: { name, ...owner, sources: takes, enabled: true, webhooks },
  }
}

/** Plays steps, and says what each of them must be answered. */
class Model {
  readonly known: Record<Kind, Map<string, Known>> = {
    sources: new Map(),
    destinations: new Map(),
    tenants: new Map(),
  }

  /** Keys that were valid once. */
  readonly revoked = new Set<string>()

  /** To whom the names of destinations belong: to a tenant, or to none if the destination was deleted. */
  readonly #owners = new Map<string, string | null>()

  /** The status of a step's answer. */
  expected(one: Step): number {
    const { act, kind, name, condition } = one
    const before = this.known[kind].get(name)
    if (condition === 'stale' || (condition === 'right' && !before)) return 412
    if (act !== 'put' && !before) return 404
    if (act === 'rotate') return before?.secrets.length === 2 ? 409 : 200
    if (act === 'revoke') return before?.secrets.length === 2 ? 200 : 409
    if (act === 'delete') return this.#isNeeded(kind, name) ? 409 : 200
    if (!this.#fits(one)) return 400
    if (!before) return 201
    const isSame = JSON.stringify(before.settings) === JSON.stringify(settingsOf(one).shown)
    return condition === 'new' && act === 'put' && !isSame ? 412 : 200
  }

  apply(one: Step, { body }: Answered): void {
    const { act, kind, name } = one
    const before = this.known[kind].get(name)
    if (act === 'delete') {
      for (const key of before?.secrets ?? []) this.revoked.add(key)
      this.known[kind].delete(name)
      if (kind === 'destinations') this.#owners.set(name, this.#owners.get(name) ?? null)
      return
    }
    const secrets = [...(before?.secrets ?? []), ...Object.values(body.generated)]
    if (act === 'revoke') this.revoked.add(secrets.shift() ?? '')
    const isWhole = act === 'put' || act === 'patch'
    const settings = isWhole ? settingsOf(one).shown : (before?.settings ?? {})
    const version = body.item.version ?? 0
    if (body.changed) expect(version).toBeGreaterThan(before?.version ?? 0)
    else expect(version).toBe(before?.version)
    this.known[kind].set(name, { version, settings, secrets })
    if (kind !== 'destinations' || !isWhole) return
    const { tenant } = one
    if (this.#owners.get(name) === null) this.#owners.delete(name)
    if (tenant !== undefined && !this.#owners.has(name)) this.#owners.set(name, tenant)
  }

  /** Whether the settings of a step fit to the others. */
  #fits({ kind, name, takes, tenant }: Step): boolean {
    if (kind === 'tenants') return true
    if (tenant !== undefined && tenant !== HOUSE && !this.known.tenants.has(tenant)) return false
    if (kind === 'destinations') {
      return this.#mayBeOf(tenant, name) && takes.every((source) => this.#mayTake(tenant, source))
    }
    return this.#takersOf(name).every(
      ({ settings }) => settings['tenant'] === undefined || settings['tenant'] === tenant,
    )
  }

  /** Whether a destination of a tenant, or of none, may have a name. */
  #mayBeOf(tenant: string | undefined, name: string): boolean {
    const owner = this.#owners.get(name)
    if (owner === undefined || owner === (tenant ?? null)) return true
    return this.known.destinations.has(name) && tenant === undefined
  }

  /** Whether a destination of a tenant may take the calls of a source. */
  #mayTake(tenant: string | undefined, name: string): boolean {
    if (name === 'web') return tenant === undefined
    const source = this.known.sources.get(name)
    return source !== undefined && (tenant === undefined || source.settings['tenant'] === tenant)
  }

  #isNeeded(kind: Kind, name: string): boolean {
    if (kind === 'sources') return this.#takersOf(name).length > 0
    const { sources, destinations } = this.known
    return (
      kind === 'tenants' &&
      [...sources.values(), ...destinations.values()].some(
        ({ settings }) => settings['tenant'] === name,
      )
    )
  }

  #takersOf(source: string): Known[] {
    return [...this.known.destinations.values()].filter(({ settings }) =>
      (settings['sources'] as string[]).includes(source),
    )
  }
}

function send(running: RunningDestination, one: Step, known: Known | undefined): Promise<Answered> {
  const { act, kind, name, condition } = one
  const path = `/${kind}/${name}`
  const headers = {
    none: {},
    right: { 'If-Match': `"${known?.version ?? 1}"` },
    stale: { 'If-Match': '"0"' },
    new: act === 'put' ? { 'If-None-Match': '*' } : {},
  }[condition] as Record<string, string>
  const { sent } = settingsOf(one)
  switch (act) {
    case 'put':
      return ask(running, 'PUT', path, sent, headers)
    case 'patch':
      return ask(running, 'PATCH', path, sent, headers)
    case 'rotate':
      return ask(running, 'POST', `${path}/rotation`, undefined, headers)
    case 'revoke':
      return ask(running, 'DELETE', `${path}/rotation`, undefined, headers)
    default:
      return ask(running, 'DELETE', path, undefined, headers)
  }
}

/** What a process has in its store, as the map has it. */
async function shownBy(running: RunningDestination) {
  const all: Record<Kind, Record<string, unknown>> = { sources: {}, destinations: {}, tenants: {} }
  for (const kind of KINDS) {
    const { body } = await ask(running, 'GET', `/${kind}`)
    for (const { name, origin, version, settings, secrets } of body.items) {
      if (origin === 'file') continue
      const count = Object.values(secrets).reduce((sum, one) => sum + one, 0)
      all[kind][name] = { version, settings, secrets: count }
    }
  }
  return all
}

function asShown({ known }: Model) {
  const entries = (kind: Kind) =>
    Object.fromEntries(
      Array.from(known[kind], ([name, { secrets, ...rest }]) => [
        name,
        { ...rest, secrets: secrets.length },
      ]),
    )
  return {
    sources: entries('sources'),
    destinations: entries('destinations'),
    tenants: entries('tenants'),
  }
}

/** Plays the steps by one or two processes of a store. */
async function play(steps: readonly Step[], settings: Settings, processes: 1 | 2): Promise<void> {
  const start = () => startDestination(settings, silent)
  const running = await Promise.all(Array.from({ length: processes }, start))
  const model = new Model()
  try {
    for (const one of steps) {
      const place = one.process % processes
      if (one.restarts) {
        await running[place]?.close()
        running[place] = await start()
      }
      const expected = model.expected(one)
      const known = model.known[one.kind].get(one.name)
      const answer = await send(running[place] as RunningDestination, one, known)
      expect(answer.status, `${JSON.stringify(one)}: ${answer.text}`).toBe(expected)
      if (answer.status < 300) model.apply(one, answer)
      // The process that has answered uses the change already.
      expect(await shownBy(running[place] as RunningDestination)).toEqual(asShown(model))
    }
    for (const each of running) {
      await vi.waitUntil(async () => isDeepStrictEqual(await shownBy(each), asShown(model)), 5_000)
      const valid = [KEY, ...[...model.known.sources.values()].flatMap(({ secrets }) => secrets)]
      for (const key of valid) expect((await post(each, [track('m')], key)).status).toBe(200)
      for (const key of model.revoked)
        expect((await post(each, [track('m')], key)).status).toBe(401)
    }
  } finally {
    await Promise.all(running.map((each) => each.close()))
  }
}

const later: (() => unknown)[] = []
const atTheEnd: Later = (cleanUp) => later.unshift(cleanUp)
afterAll(async () => {
  for (const cleanUp of later) await cleanUp()
})

const managed = (changes: Partial<Settings> = {}) =>
  settingsFor(
    [],
    {
      settingsKeys: [SETTINGS_KEY],
      tenants: [{ name: HOUSE, portal: { editUrls: false } }],
      ...changes,
    },
    atTheEnd,
  )

// fast-check prints the seed and the path of a failure: give them to `fc.assert` to see it again.
describe('random changes are those of a plain map', { timeout: 300_000 }, () => {
  test('on SQLite, with restarts', { tags: 'long' }, async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: 30 }), (steps) =>
        play(steps, managed(), 1),
      ),
      { numRuns: rounds(5) },
    )
  })

  test('by two processes on PostgreSQL, with restarts', { tags: 'long' }, async () => {
    const server = await startServer({ fsync: 'off' })
    atTheEnd(() => server.dispose())
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: 30 }), async (steps) => {
        await play(steps, managed({ store: await server.database() }), 2)
      }),
      { numRuns: rounds(3) },
    )
  })
})

test(
  'a change that does not fit to the file of another process is not used there, and its log says so',
  { tags: 'long' },
  async () => {
    const server = await startServer({ fsync: 'off' })
    atTheEnd(() => server.dispose())
    const settings = managed({ store: await server.database() })
    const one = await startDestination(settings, silent)
    const errors: unknown[] = []
    const log = { ...silent, error: (fields: object) => errors.push(fields) }
    const app = { name: 'app', writeKey: 'file-key' }
    const two = await startDestination({ ...settings, sources: [app] }, log)
    try {
      await ask(one, 'PUT', '/sources/app', { writeKey: 'store-key' })
      await ask(one, 'PUT', '/sources/new', { writeKey: 'new-key' })
      await vi.waitUntil(
        async () => (await post(two, [track('m')], 'new-key')).status === 200,
        5_000,
      )
      expect(errors).toEqual([
        {
          ...{ kind: 'source', name: 'app' },
          message: 'the settings file has a source of this name too. Rename one of the two.',
        },
      ])
      expect((await post(two, [track('m')], 'file-key')).status).toBe(200)
      expect((await post(two, [track('m')], 'store-key')).status).toBe(401)
    } finally {
      await Promise.all([one.close(), two.close()])
    }
  },
)
