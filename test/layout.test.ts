import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'
import manifest from '../package.json' with { type: 'json' }
import tsconfig from '../tsconfig.json' with { type: 'json' }
import { readDocuments, rowsOf } from './documents.js'
import { cycles, deadEnds, own, readModules } from './imports.js'

const SRC = fileURLToPath(new URL('../src', import.meta.url))

/** The way of a call. A stage imports from those after it, and from leaves. */
const STAGES =
  'analytics script-end options headers validate encode spool/spooled-queue spool/spool spool/absorb spool/lease spool/owner spool/segments spool/damage spool/syncing spool/segment spool/record queue send blame line body-size isolation batch attempt agent proxy answer retry books flushes teller warnings'.split(
    ' ',
  )

/** What any stage may import. */
const LEAVES =
  'types errors hookline-error across-builds entry id limits log runtime describe exit rejections version spool/node'.split(
    ' ',
  )

/** What decides which names are public, and what is made of the stages. No stage imports any of them. */
const AROUND = 'index testing test-analytics request-context'.split(' ')

const ADAPTERS =
  'webhook/adapters/express webhook/adapters/fastify webhook/adapters/fetch webhook/adapters/hono webhook/adapters/koa webhook/adapters/lambda'.split(
    ' ',
  )

/**
 * The way of a request through a receiver, which begins in an adapter. A module imports from those after it;
 * `webhook/index` and `webhook/signed-request` come first because nothing in the folder needs them.
 */
const WEBHOOK =
  'webhook/index webhook/signed-request webhook/signature webhook/web-signature webhook/receive webhook/node-body webhook/read-body webhook/parse webhook/rule webhook/verification-error webhook/events'.split(
    ' ',
  )

/** What the receivers share with the client: an application catches the errors of both by one class. */
const SHARED = ['hookline-error', 'across-builds']

const modules = readModules(SRC)

test('every module has its place in these lists, so that the tests see all of them', () => {
  const known = [...STAGES, ...LEAVES, ...AROUND, ...ADAPTERS, ...WEBHOOK]
  expect([...modules.keys()].sort()).toEqual(known.sort())
  expect(own(modules, 'analytics').length).toBeGreaterThan(10)
})

describe('imports', () => {
  test.each(STAGES)('of %s come from stages after it and from leaves', (stage) => {
    const after = STAGES.slice(STAGES.indexOf(stage) + 1)
    const wrong = own(modules, stage).filter(({ module, isType }) => {
      if (after.includes(module) || LEAVES.includes(module)) return false
      // What the options are, their types, is known to all; what checks them is not.
      return !(module === 'options' && isType)
    })
    expect(wrong.map(({ module }) => module)).toEqual([])
  })

  test.each(LEAVES)('of the leaf %s come from leaves', (leaf) => {
    const wrong = own(modules, leaf).filter(({ module }) => !LEAVES.includes(module))
    expect(wrong.map(({ module }) => module)).toEqual([])
  })

  test.each(ADAPTERS)('of the adapter %s come from the receiver behind it', (adapter) => {
    const wrong = own(modules, adapter).filter(({ module }) => !WEBHOOK.includes(module))
    expect(wrong.map(({ module }) => module)).toEqual([])
  })

  test.each(WEBHOOK)('of %s come from modules after it and from what is shared', (name) => {
    const after = [...WEBHOOK.slice(WEBHOOK.indexOf(name) + 1), ...SHARED]
    const wrong = own(modules, name).filter(({ module }) => !after.includes(module))
    expect(wrong.map(({ module }) => module)).toEqual([])
  })

  test('of webhook/ are in the two entries that export it, and nowhere else outside', () => {
    const outside = [...modules.keys()].filter((name) => !name.startsWith('webhook/'))
    const importers = outside.filter((name) =>
      own(modules, name).some(({ module }) => module.startsWith('webhook/')),
    )
    expect(importers).toEqual(['index', 'testing'])
  })

  test('all lead to a file', () => {
    expect(deadEnds(modules)).toEqual([])
  })

  test('make no cycle, types counted', () => {
    expect(cycles(modules)).toEqual([])
  })

  test('of packages are the three dependencies; what Node offers is asked for at run time', () => {
    const core = [...STAGES, ...LEAVES]
    const packages = core.flatMap((name) =>
      (modules.get(name)?.imports ?? [])
        .filter(({ from }) => !from.startsWith('.'))
        .map(({ from }) => from),
    )
    expect([...new Set(packages)].sort()).toEqual(['cross-fetch', 'debug', 'uuid'])
  })
})

describe('the tables in CONTRIBUTING.md', () => {
  const contributing = readDocuments().filter(({ path }) => path === 'CONTRIBUTING.md')
  const filesIn = (table: string) =>
    contributing
      .flatMap((document) => rowsOf(document, table))
      .flatMap(([, files = '']) => files.match(/[\w/-]+(?=\.ts`)/g) ?? [])

  test('have the stages in their order, and then the leaves', () => {
    const files = filesIn('stage')
    expect(files.slice(0, STAGES.length)).toEqual(STAGES)
    expect(files.slice(STAGES.length).sort()).toEqual(LEAVES.toSorted())
  })

  test('have the files of webhook/', () => {
    const files = filesIn('step').map((file) => `webhook/${file}`)
    expect(files.sort()).toEqual(WEBHOOK.toSorted())
  })
})

test.each(['index', 'testing', 'webhook/index'])('%s.ts only re-exports', (name) => {
  expect(modules.get(name)?.isOnlyReExports).toBe(true)
})

test('the paths in tsconfig.json are the exports in package.json, and lead to a source', () => {
  const { paths } = tsconfig.compilerOptions
  const exported = Object.keys(manifest.exports).filter((subpath) => subpath !== './package.json')
  const specifiers = exported.map((subpath) => subpath.replace(/^\./, 'hookline'))
  expect(Object.keys(paths).sort()).toEqual(specifiers.sort())
  const sources = Object.values(paths).flat()
  const names = sources.map((source) => source.slice('./src/'.length, -'.ts'.length))
  expect([...modules.keys()]).toEqual(expect.arrayContaining(names))
})
