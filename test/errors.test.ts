import { readFileSync } from 'node:fs'
import { inspect } from 'node:util'
import { describe, expect, test } from 'vitest'
import * as hookline from '../src/index.js'
import type { AnalyticsOptions } from '../src/index.js'
import {
  createClient,
  listen,
  scriptedFetch,
  trackMany,
  WRITE_KEY,
  type FetchReply,
} from './collector.js'

const read = (path: string) => readFileSync(new URL(`../${path}`, import.meta.url), 'utf8')

/** Each code of src/errors.ts, with its class. */
function codesOfSource(): string[] {
  const source = read('src/errors.ts')
  const codesOf = (type: string) => {
    const union = new RegExp(`export type ${type} =([^/]*?)\\n\\n`).exec(source)?.[1] ?? ''
    return [...union.matchAll(/'(\w+)'/g)].map(([, code]) => code ?? '')
  }
  const classes = source.matchAll(/class (\w+) extends[^]*?\n}/g)
  return [...classes]
    .flatMap(([text, name = '']) => {
      const [, literal, type = ''] = /override readonly code(?: = '(\w+)'|: (\w+))/.exec(text) ?? []
      return (literal ? [literal] : codesOf(type)).map((code) => `${code} ${name}`)
    })
    .sort()
}

/** Each code of the table in docs/errors.md, with its class. */
function codesOfDocument(): string[] {
  const section = /\n## Of the client\n([^]*?)\n## /.exec(read('docs/errors.md'))?.[1] ?? ''
  const rows = section.matchAll(/^\| `(\w+)` +\| `(\w+)` +\|/gm)
  return [...rows].map(([, code, name]) => `${code ?? ''} ${name ?? ''}`).sort()
}

test('docs/errors.md explains every code that there is, and no other', () => {
  expect(codesOfSource()).toHaveLength(17)
  expect(codesOfDocument()).toEqual(codesOfSource())
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
    new hookline.SpoolError('spool_failed', 'm', { cause }),
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

test('no error has the write key in it', async () => {
  const { failed, hooks } = listen()
  const lose = async (reply: FetchReply, given: AnalyticsOptions = {}, event = 'e') => {
    const options = { maxRetries: 0, onInvalid: 'report', ...hooks, ...given } as const
    const analytics = createClient(scriptedFetch(reply), options)
    analytics.track({ userId: 'u', event })
    await analytics.close({ timeout: reply === 'hang' ? 0 : 1_000 })
    return analytics
  }
  await lose(401)
  await lose(503)
  await lose(new Error('reset'))
  await lose(200, {}, '')
  await lose(200, {}, 'x'.repeat(40_000))
  await lose(200, { maxQueueBytes: 1 })
  const closed = await lose('hang')
  trackMany(closed, 1)
  await closed.flush()
  expect(failed.map(({ error }) => error.code)).toEqual([
    ...['rejected', 'retries_exhausted', 'retries_exhausted', 'invalid_message'],
    ...['message_too_large', 'queue_full', 'close_timeout', 'closed'],
  ])
  expect(inspect(failed, { depth: Infinity })).not.toContain(WRITE_KEY)
})
