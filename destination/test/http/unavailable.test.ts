import { expect, onTestFinished, test } from 'vitest'
import { overloaded, Refusal } from '../../src/http/refusal.js'
import { createServer } from '../../src/http/server.js'
import { StoreError } from '../../src/store/store-error.js'

const LOCKED = new StoreError('locked', 'Another program has locked store.db')

/** Starts a server whose routes fail, asks for them in turn, and gives the details of its log. */
async function logOf(errors: Record<string, Error>, ...paths: string[]): Promise<object[]> {
  const logged: object[] = []
  const log = { warn: (details: object) => logged.push(details), error: () => undefined }
  const server = createServer(log, '')
  for (const [path, error] of Object.entries(errors)) {
    server.app.post(path, () => Promise.reject(error))
  }
  const url = await server.listen('127.0.0.1', 0)
  onTestFinished(() => server.close(0))
  for (const path of paths) await fetch(`${url}${path}`, { method: 'POST' })
  return logged
}

test('the log has why the store has failed a request of the operator or of a customer, and the same answer once', async () => {
  const errors = {
    '/v1/deletions': LOCKED,
    '/v1/portal/replay': LOCKED,
    '/v1/admin/replay': new StoreError('full', 'The disk is full'),
  }
  const paths = ['/v1/deletions', '/v1/portal/replay', '/v1/admin/replay', '/v1/deletions']
  expect(await logOf(errors, ...paths)).toEqual([
    { err: LOCKED },
    { err: expect.objectContaining({ code: 'full' }) as object },
  ])
})

test('the log has that calls are refused because of the load, but not that the store refuses them, which has a line of its own', async () => {
  const errors = {
    '/v1/track': LOCKED,
    '/v1/batch': overloaded(),
    '/v1/page': new Refusal(429, 'rate_limited', 'Too fast.'),
  }
  expect(await logOf(errors, '/v1/track', '/v1/batch', '/v1/page', '/v1/batch')).toEqual([
    { error: expect.stringMatching(/^Calls arrive faster/) as string },
  ])
})
