import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'

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

const entry = (name: string) => reach(new URL(`../../src/${name}.ts`, import.meta.url).href)
const packages = (name: string) => [...entry(name)].filter((module) => !module.startsWith('file:'))

test.each(['fetch', 'hono'])(
  'hookline/%s loads nothing but this package, and no Buffer',
  (name) => {
    expect(packages(name)).toEqual([])
    for (const module of entry(name)) {
      expect(readFileSync(new URL(module), 'utf8')).not.toMatch(/\bBuffer\b|\bprocess\.(?!env)/)
    }
  },
)

test.each(['webhook', 'express', 'fastify', 'koa', 'lambda'])(
  'hookline/%s loads no package and nothing but the crypto of Node',
  (name) => {
    expect(packages(name)).toEqual(['node:crypto'])
  },
)
