import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'
import { cycles, deadEnds, own, readModules } from './imports.js'

const SRC = fileURLToPath(new URL('../src', import.meta.url))

/** The way of a call. A stage imports from those after it, and from leaves. */
const STAGES =
  'analytics options headers validate encode spool/spooled-queue spool/spool spool/lease spool/segment spool/record queue send body-size isolation batch attempt agent proxy retry books flushes warnings'.split(
    ' ',
  )

/** What any stage may import. */
const LEAVES =
  'types errors hookline-error across-builds entry id limits log runtime describe exit rejections version spool/node'.split(
    ' ',
  )

const modules = readModules(SRC)

test('every stage and leaf is there, so that these tests see what they should', () => {
  expect([...modules.keys()]).toEqual(expect.arrayContaining([...STAGES, ...LEAVES, 'index']))
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

test('index.ts only re-exports', () => {
  expect(modules.get('index')?.isOnlyReExports).toBe(true)
})
