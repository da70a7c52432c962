import { expect, test } from 'vitest'
import { explainStart } from '../../../src/cli/serve/start-error.js'
import { toStoreError as ofPostgres } from '../../../src/store/postgres/failure.js'
import { StoreError } from '../../../src/store/store-error.js'
import { toStoreError as ofSqlite } from '../../../src/store/sqlite/failure.js'
import { settingsFor } from '../../run.js'

test.each([
  [
    'SQLite',
    ofSqlite(Object.assign(new Error('no space'), { code: 'ENOSPC' }), '/data/h.db'),
    /^Could not start: There is no room to write \/data\/h\.db\. Free at least 1 MB of disk space, and start it again\.$/,
  ],
  [
    'PostgreSQL',
    ofPostgres(Object.assign(new Error('disk full'), { code: '53100' }), 'db:5432/h'),
    /^Could not start: .*disk full.*: make room on the server, and start it again\.$/,
  ],
])('a start on a full disk of %s says to start it again', (_name, error, message) => {
  const explained = explainStart(error, settingsFor([]), 'hookline.config.json') as Error
  expect(explained.message).toMatch(message)
})

test.each(['full', 'locked', 'newer', 'unsupported'] as const)(
  'a start that the store refuses has the code of the store: %s',
  (code) => {
    const error = new StoreError(code, 'The store is what it is.')
    const explained = explainStart(error, settingsFor([]), 'hookline.config.json')
    expect(explained).toMatchObject({ code, exitCode: 1 })
  },
)

test.each<[string, string, object, string]>([
  ['localhost:80', '10.0.0.1:80', { address: '127.0.0.1', port: 80 }, 'listen'],
  ['10.0.0.1:80', 'localhost:80', { address: '::1', port: 80 }, 'adminListen'],
  ['10.0.0.1:80', 'localhost:80', { address: '10.0.0.1', port: 80 }, 'listen'],
  ['localhost:80', 'localhost:81', { address: '127.0.0.1', port: 80 }, 'listen'],
  ['localhost:80', 'localhost:81', { address: '::1', port: 81 }, 'adminListen'],
])('with listen %s and adminListen %s, an error at %j names %s', (...given) => {
  const [listen, adminListen, where, field] = given
  const read = (text: string) => {
    const { hostname: host, port } = new URL(`tcp://${text}`)
    return { host, port: Number(port) }
  }
  const settings = { ...settingsFor([]), listen: read(listen), adminListen: read(adminListen) }
  const error = Object.assign(new Error('in use'), { code: 'EADDRINUSE', syscall: 'listen' }, where)
  const { message } = explainStart(error, settings, 'hookline.config.json') as Error
  const address = field === 'listen' ? listen : adminListen
  expect(message).toContain(`Could not listen on ${address}: `)
  expect(message).toContain(`set "${field}"`)
})
