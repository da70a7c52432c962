import { beforeAll, expect, test } from 'vitest'
import type { RunningDestination } from '../../src/destination.js'
import { exchange } from '../collect/start.js'
import { settingsFor, silent, start } from '../run.js'

let running: RunningDestination

beforeAll(async () => {
  const cleanUps: (() => unknown)[] = []
  const later = (cleanUp: () => unknown) => cleanUps.unshift(cleanUp)
  running = await start(settingsFor([], {}, later), silent, later)
  return async () => {
    for (const cleanUp of cleanUps) await cleanUp()
  }
})

const answerTo = async (method: string, target: string) => {
  const { port } = new URL(running.url)
  const head = `${method} ${target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n`
  const answer = await exchange(Number(port), head)
  return [Number(answer.slice(9, 12)), JSON.parse(answer.split('\r\n\r\n')[1] ?? '')] as unknown
}

test.each([
  ['GET', '/v1/admin/status', 401, 'no_admin_token'],
  ['GET', '/v1/%61dmin/status', 401, 'no_admin_token'],
  ['GET', 'http://a/v1/admin/status', 401, 'no_admin_token'],
  ['GET', 'http://a/v1/%70ortal/sources?x=1', 401, 'no_portal_token'],
  ['GET', 'http://a/v1/admin', 404, 'not_found'],
  ['GET', '/v1/%61dmin/nothing', 404, 'not_found'],
  ['PUT', '/v1/%61dmin/status', 405, 'method_not_allowed'],
  ['PUT', 'HTTP://a/v1/admin/status', 405, 'method_not_allowed'],
])('an error of %s %s has the form of the admin API', async (method, target, status, code) => {
  expect(await answerTo(method, target)).toMatchObject([status, { error: { code } }])
})

test.each([
  ['GET', '/v1/administrator', 404, 'not_found'],
  ['GET', '/nothing?/v1/admin/status', 404, 'not_found'],
  ['GET', 'http://a/nothing?/v1/admin/status', 404, 'not_found'],
  ['GET', '/v1/b%61tch', 405, 'method_not_allowed'],
  ['GET', '/v1/%', 400, 'bad_request'],
])('an error of %s %s has the form of the collector', async (method, target, status, code) => {
  expect(await answerTo(method, target)).toMatchObject([status, { success: false, code }])
})
