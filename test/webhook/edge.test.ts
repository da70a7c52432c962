import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import tsconfig from '../../tsconfig.json' with { type: 'json' }

/** Every module that an entry loads, by what its sources import other than types. */
function reach(file: string, seen = new Set<string>()): Set<string> {
  if (seen.has(file)) return seen
  seen.add(file)
  if (!file.startsWith('file:')) return seen
  const source = readFileSync(new URL(file), 'utf8')
  for (const [, from = ''] of source.matchAll(
    /^(?:import|export) (?!type )(?:[\w*{][\w\s,*{}]* from )?'([^']+)'/gm,
  )) {
    const target = from.startsWith('.') ? new URL(from.replace(/\.js$/, '.ts'), file).href : from
    reach(target, seen)
  }
  return seen
}

type Specifier = keyof typeof tsconfig.compilerOptions.paths

function entry(specifier: Specifier): Set<string> {
  const [source = ''] = tsconfig.compilerOptions.paths[specifier]
  return reach(new URL(`../../${source}`, import.meta.url).href)
}
const packages = (name: Specifier) =>
  [...entry(name)].filter((module) => !module.startsWith('file:'))

test.each(['hookline/fetch', 'hookline/hono'] as const)(
  '%s loads nothing but this package, and no Buffer',
  (name) => {
    expect(packages(name)).toEqual([])
    for (const module of entry(name)) {
      expect(readFileSync(new URL(module), 'utf8')).not.toMatch(/\bBuffer\b|\bprocess\.(?!env)/)
    }
  },
)

test.each([
  'hookline/webhook',
  'hookline/express',
  'hookline/fastify',
  'hookline/koa',
  'hookline/lambda',
] as const)('%s loads no package and nothing but the crypto of Node', (name) => {
  expect(packages(name)).toEqual(['node:crypto'])
})
