import { readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import * as hookline from '../src/index.js'

const read = (path: string) => readFileSync(new URL(`../${path}`, import.meta.url), 'utf8')

/** Each code of src/errors.ts, with its class. */
function codesOfSource(): string[] {
  const source = read('src/errors.ts')
  const reasons = /export type DropReason =([^/]*?)\n\n/.exec(source)?.[1] ?? ''
  const dropped = [...reasons.matchAll(/'(\w+)'/g)].map(([, code]) => `${code ?? ''} DroppedError`)
  const others = [...source.matchAll(/class (\w+) extends[^]*?\n}/g)].flatMap(([text, name]) => {
    const code = /override readonly code = '(\w+)'/.exec(text)?.[1]
    return code ? [`${code} ${name ?? ''}`] : []
  })
  return [...dropped, ...others].sort()
}

/** Each code of the README's table, with its class. */
function codesOfReadme(): string[] {
  const section = /\n## Errors\n([^]*?)\n## /.exec(read('README.md'))?.[1] ?? ''
  const rows = section.matchAll(/^\| `(\w+)` +\| `(\w+)` +\|/gm)
  return [...rows].map(([, code, name]) => `${code ?? ''} ${name ?? ''}`).sort()
}

test('the README explains every code that there is, and no other', () => {
  expect(codesOfSource()).toHaveLength(11)
  expect(codesOfReadme()).toEqual(codesOfSource())
})

describe('every error', () => {
  const cause = new Error('the cause')
  test.each([
    new hookline.OptionError('flushAt', 'm'),
    new hookline.ValidationError('userId', 'm', { cause }),
    new hookline.MessageTooLargeError('m', 40_008),
    new hookline.ClosedError('m'),
    new hookline.DroppedError('queue_full', 'm', { cause }),
    new hookline.RejectedError('m', 403, 'd'),
    new hookline.RetriesExhaustedError('m', 3, cause),
  ])('$name is exported, and a HooklineError with a message, a code and a stack', (error) => {
    expect(error).toBeInstanceOf(hookline.HooklineError)
    expect(error).toBeInstanceOf(Error)
    expect(error.message).toBe('m')
    expect(error.code).toMatch(/^[a-z_]+$/)
    expect(error.name).toBe(error.constructor.name)
    expect(String(error)).toBe(`${error.name}: m`)
    expect(error.stack).toContain('errors.test.ts')
    expect([undefined, cause]).toContain(error.cause)
  })
})
