import { createRequire } from 'node:module'
import { expect, test, vi } from 'vitest'
import * as one from '../src/index.js'

/** Sources that are loaded twice have two copies of each class, as the two builds of the package have. */
async function again(): Promise<typeof one> {
  const built = process.env['HOOKLINE_PACKAGE']
  if (built) return createRequire(import.meta.url)(`${built}/dist/index.cjs`) as typeof one
  vi.resetModules()
  return import('../src/index.js')
}

const other = await again()

test('there are two copies of each class here', () => {
  expect(other.Analytics).not.toBe(one.Analytics)
  expect(other.RejectedError).not.toBe(one.RejectedError)
})

test('a client is an instance of the Analytics of either copy, and of nothing else', () => {
  const analytics = new one.Analytics('k', { disabled: true })
  expect(analytics).toBeInstanceOf(one.Analytics)
  expect(analytics).toBeInstanceOf(other.Analytics)
  expect(analytics).not.toBeInstanceOf(other.HooklineError)
})

test('an error is an instance of its class and of HooklineError in either copy, and of no other class', () => {
  for (const error of [
    new one.RejectedError('m', 400, 'd'),
    new one.WebhookVerificationError('invalid_json', 'm'),
  ]) {
    const { name } = error
    expect(error).toBeInstanceOf(other[name])
    expect(error).toBeInstanceOf(other.HooklineError)
    expect(error).not.toBeInstanceOf(other.ClosedError)
    expect(error).not.toBeInstanceOf(other.Analytics)
  }
})

test.each([undefined, null, 1, 'RejectedError', {}, new Error('m')])(
  '%s is no HooklineError',
  (value) => {
    expect(value instanceof one.HooklineError).toBe(false)
  },
)

test('a subclass of an application has instances of its own alone', () => {
  class Own extends one.RejectedError {}
  expect(new one.RejectedError('m', 400, 'd')).not.toBeInstanceOf(Own)
  expect(new Own('m', 400, 'd')).toBeInstanceOf(Own)
  expect(new Own('m', 400, 'd')).toBeInstanceOf(other.RejectedError)
})
