import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'
import { cycles, deadEnds, own, packagesOf, readModules } from '../../test/imports.js'

const modules = readModules(fileURLToPath(new URL('../src', import.meta.url)))

/**
 * The rooms of the sources, in the order of their imports. Each is a folder or a file. A room imports only from the
 * rooms in `from`, and only types from the rooms in `types`.
 */
const ROOMS: Record<string, { from?: string[]; types?: string[] }> = {
  start: { from: ['cli', 'main'] },
  main: { from: ['cli', 'destination', 'operate', 'deliver', 'manage', 'store'] },
  index: { from: ['destination', 'settings', 'store'], types: ['observe', 'model'] },
  cli: {
    from: ['observe', 'collect', 'enqueue', 'settings', 'model', 'version'],
    types: ['operate', 'store'],
  },
  destination: {
    from: [
      'operate',
      'manage',
      'observe',
      'alert',
      'collect',
      'enqueue',
      'deliver',
      'http',
      'settings',
      'store',
      'model',
    ],
  },
  operate: {
    from: [
      'manage',
      'observe',
      'http',
      'enqueue',
      'deliver',
      'post',
      'settings',
      'store',
      'model',
      'version',
    ],
  },
  manage: { from: ['observe', 'http', 'settings', 'store', 'model'] },
  observe: {
    from: ['http', 'store', 'model', 'version'],
    types: ['alert', 'collect', 'enqueue', 'deliver', 'settings'],
  },
  alert: { from: ['enqueue', 'settings', 'store', 'model'], types: ['deliver'] },
  collect: { from: ['http', 'model'], types: ['enqueue', 'settings'] },
  enqueue: { from: ['settings', 'model'], types: ['deliver', 'http', 'store'] },
  http: { from: ['store', 'model'] },
  deliver: { from: ['post', 'store', 'model'], types: ['settings'] },
  post: { from: ['model'], types: ['settings'] },
  settings: { from: ['store', 'model'] },
  store: { from: ['model'] },
  model: {},
  version: {},
}

const ORDER = Object.keys(ROOMS)

const roomOf = (module: string) => module.split('/')[0] ?? ''

/** Modules without side effects, clocks and randomness: the same arguments give the same result. */
const PURE = [
  'alert/alert',
  'alert/dead-letters',
  'alert/rate',
  'alert/streak',
  'cli/import/columns',
  'cli/import/ledger',
  'collect/limits',
  'collect/timestamp',
  'collect/trace-context',
  'collect/trace-parent',
  'deliver/breaker',
  'deliver/decide',
  'deliver/pace',
  'deliver/process-room',
  'deliver/schedule',

  'enqueue/filter',
  'enqueue/samples',
  'enqueue/webhook-body',
  'model/address',
  'model/call',
  'model/cause',
  'model/fields',
  'model/grouped',
  'model/health',
  'model/answers',
  'model/delivery',
  'model/outcome',
  'model/portal-words',
  'model/secrets',
  'model/shown-url',
  'model/wildcard',
  'observe/durations',
  'observe/error-message',
  'observe/printable',
  'post/certificate-errors',
  'post/dns-errors',
  'post/headers',
  'post/retry-after',
  'settings/condition',
  'settings/duration',
  'settings/filters',
  'settings/network',
  'settings/problem',
  'settings/reach',
  'settings/relations',
  'settings/reload',
  'settings/suggest',
  'settings/where',
  'store/purge-pages',
  'store/rows',
  'store/states',
  'store/store-error',
  'store/text',
]

/** The modules that pure modules may import, because they only compute: hashes, IP addresses, equality. */
const PURE_PACKAGES = ['node:crypto', 'node:net', 'node:util']

test('all that is named here is there, so that these tests see what they should', () => {
  const rooms = new Set([...modules.keys()].map(roomOf))
  expect([...rooms].sort()).toEqual([...ORDER].sort())
  expect([...modules.keys()]).toEqual(expect.arrayContaining(PURE))
  expect(own(modules, 'destination').length).toBeGreaterThan(10)
})

describe('rooms', () => {
  test.each(ORDER)('%s imports only from rooms that come after it', (room) => {
    const { from = [], types = [] } = ROOMS[room] ?? {}
    const place = ORDER.indexOf(room)
    expect([...from, ...types].filter((other) => ORDER.indexOf(other) <= place)).toEqual([])
  })

  test.each([...modules.keys()])('%s imports only from rooms that its room may use', (name) => {
    const room = roomOf(name)
    const { from = [], types = [] } = ROOMS[room] ?? {}
    const wrong = own(modules, name).filter(({ module, isType }) => {
      const other = roomOf(module)
      return other !== room && !from.includes(other) && !(isType && types.includes(other))
    })
    expect(wrong.map(({ module }) => module)).toEqual([])
  })

  test.each(ORDER)('%s uses every room that is named for it', (room) => {
    const { from = [], types = [] } = ROOMS[room] ?? {}
    const names = [...modules.keys()].filter((name) => roomOf(name) === room)
    const used = names.flatMap((name) => own(modules, name))
    const values = used.filter(({ isType }) => !isType).map(({ module }) => roomOf(module))
    expect(from.filter((other) => !values.includes(other))).toEqual([])
    const all = used.map(({ module }) => roomOf(module))
    expect(types.filter((other) => !all.includes(other))).toEqual([])
  })
})

describe('imports', () => {
  test('of an engine of the store are in it, or where stores are told apart and opened', () => {
    const engine = (module: string) => /^store\/[^/]+(?=\/)/.exec(module)?.[0]
    const others = [...modules.keys()].filter(
      (name) => !['store/kind', 'store/open'].includes(name),
    )
    const wrong = others.flatMap((name) =>
      own(modules, name)
        .filter(({ module }) => engine(module) !== undefined)
        .filter(({ module }) => engine(module) !== engine(name))
        .map(({ module }) => `${name} → ${module}`),
    )
    expect(wrong).toEqual([])
  })

  test.each(PURE)('of the pure %s are pure', (name) => {
    const wrong = (modules.get(name)?.imports ?? []).filter(
      ({ from, module, isType }) =>
        !isType && !(module === undefined ? PURE_PACKAGES : PURE).includes(module ?? from),
    )
    expect(wrong.map(({ from }) => from)).toEqual([])
  })

  test('of the command line are no packages but commander, until a command needs them', () => {
    const packages = [...packagesOf(modules, 'main')].filter((from) => !from.startsWith('node:'))
    expect(packages).toEqual(['commander'])
  })

  test('all lead to a file', () => {
    expect(deadEnds(modules)).toEqual([])
  })

  test('make no cycle, types counted', () => {
    expect(cycles(modules)).toEqual([])
  })
})

test('index.ts only re-exports', () => {
  expect(modules.get('index')?.isOnlyReExports).toBe(true)
})
