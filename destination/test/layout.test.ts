import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'
import { cycles, deadEnds, own, readModules } from '../../test/imports.js'

const modules = readModules(fileURLToPath(new URL('../src', import.meta.url)))

/** What all stages share: a file here imports from nowhere else. */
const LEAVES = [
  'attempt/outcome',
  'call',
  'log',
  'printable',
  'role',
  'settings/settings',
  'settings/show',
  'store/store',
  'store/postgres/url',
  'store/store-error',
  'version',
]

/**
 * The stages, each a folder or a file, with those that it may import from beside itself and the leaves. Where `types`
 * are named, it knows what these are, and is handed them by the composition root.
 */
const STAGES: Record<string, { from?: string[]; types?: string[] }> = {
  collector: {},
  accept: { from: ['body'], types: ['collector', 'forward', 'route'] },
  forward: { types: ['dispatcher'] },
  metrics: { types: ['dispatcher', 'settle'] },
  admin: {
    from: ['collector', 'health', 'settle', 'trait'],
    types: ['audience', 'deletion', 'dispatcher', 'metrics'],
  },
  health: { types: ['dispatcher', 'settle'] },
  doctor: { from: ['attempt', 'body'] },
  audience: { from: ['body'], types: ['dispatcher'] },
  deletion: { from: ['body'], types: ['forward'] },
  trait: {},
  migrate: {},
  role: {},
  body: {},
  route: {},
  dispatcher: { from: ['attempt', 'settle'] },
  attempt: { types: ['settle'] },
  settle: {},
  store: {},
  retention: {},
  report: { types: ['dispatcher', 'settle'] },
  settings: {},
  destination: {
    from: [
      ...['accept', 'admin', 'attempt', 'audience', 'collector', 'deletion', 'dispatcher'],
      ...['forward', 'health', 'metrics', 'report', 'retention', 'role', 'route', 'settle'],
      ...['store', 'trace-parent'],
    ],
  },
  index: { from: ['destination', 'settings'] },
  import: {},
  cli: { from: ['import', 'report', 'settings'], types: ['admin', 'doctor', 'migrate'] },
  main: { from: ['admin', 'cli', 'destination', 'doctor', 'migrate', 'settle', 'store'] },
}

const stageOf = (module: string) => module.split('/')[0] ?? ''

/** Decisions: the same for the same arguments, with nothing of the world outside in them. */
const PURE = [
  'attempt/address',
  'attempt/certificate-errors',
  'attempt/headers',
  'attempt/outcome',
  'attempt/retry-after',
  'body',
  'call',
  'collector/limits',
  'collector/timestamp',
  'dispatcher/gate',
  'import/columns',
  'import/ledger',
  'printable',
  'route',
  'settings/duration',
  'settings/network',
  'settings/problem',
  'settings/relations',
  'settings/suggest',
  'settle/decide',
  'settle/schedule',
  'store/store-error',
  'store/text',
  'trace-parent',
]

/** Of Node, computations alone: hashes, what an IP address is, whether two values are equal. */
const PURE_PACKAGES = ['node:crypto', 'node:net', 'node:util']

test('all that is named here is there, so that these tests see what they should', () => {
  const stages = new Set([...modules.keys()].map(stageOf))
  expect([...stages]).toEqual(expect.arrayContaining(Object.keys(STAGES)))
  expect([...modules.keys()]).toEqual(expect.arrayContaining([...LEAVES, ...PURE]))
  expect(own(modules, 'destination').length).toBeGreaterThan(10)
})

describe('imports', () => {
  test.each([...modules.keys()].filter((name) => !LEAVES.includes(name)))(
    'of %s come from its stage, those it may use, and leaves',
    (name) => {
      const stage = stageOf(name)
      const { from = [], types = [] } = STAGES[stage] ?? {}
      const wrong = own(modules, name).filter(({ module, isType }) => {
        const other = stageOf(module)
        if (other === stage || LEAVES.includes(module) || from.includes(other)) return false
        return !(isType && types.includes(other))
      })
      expect(wrong.map(({ module }) => module)).toEqual([])
    },
  )

  test.each(LEAVES)('of the leaf %s come from leaves', (leaf) => {
    const wrong = own(modules, leaf).filter(({ module }) => !LEAVES.includes(module))
    expect(wrong.map(({ module }) => module)).toEqual([])
  })

  test('of an engine of the store are in it, or where stores are opened', () => {
    const engine = (module: string) => /^store\/[^/]+(?=\/)/.exec(module)?.[0]
    const others = [...modules.keys()].filter((name) => name !== 'store/open')
    const wrong = others.flatMap((name) =>
      own(modules, name)
        .filter(({ module }) => !LEAVES.includes(module) && engine(module) !== undefined)
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
