// @module-tag long
import { join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import { openStore } from '../../src/store/open.js'
import { newDelivery } from '../store/contract.js'
import { startServer } from '../store/postgres/server.js'
import { runInside } from './inside.js'
import { folderWith } from './process.js'

const server = await startServer({ fsync: 'off' })
afterAll(() => server.dispose())

const place = async (name: string) => ({ name, url: await server.database() })

/** A file with settings that have this store. */
function fileWith(store: unknown): string {
  const sources = [{ name: 'web', writeKey: 'a-write-key-of-32-characters-000' }]
  const webhooks = [{ url: 'https://crm.example/hook' }]
  const destinations = [{ name: 'crm', sources: ['web'], webhooks }]
  return join(folderWith({ sources, destinations, store }), 'hookline.config.json')
}

const store = (file: string, ...args: string[]) => runInside(['store', ...args, '--config', file])

test('shows the shares, spreads them over a new server, and empties one', async () => {
  const [a, b, c] = [await place('a'), await place('b'), await place('c')]
  const two = await openStore([a, b])
  for (let i = 0; i < 30; i++) await two.put([newDelivery({ source: `source${i}` })])
  await two.close()

  const file = fileWith([a, b, c])
  expect((await store(file, 'shares')).stdout).toBe(
    [
      'SERVER  SHARES  ARRIVING  LEAVING  FORMER  STATE',
      'a       128     0         0        0       works',
      'b       128     0         0        0       works',
      'c       0       0         0        0       works',
      '',
    ].join('\n'),
  )
  const { code, stdout } = await store(file, 'balance')
  expect(code).toBe(0)
  const moved = Array.from(
    stdout.matchAll(/(\d+) shares from ([ab]) to c: (\d+) waiting messages/g),
  )
  expect(new Map(moved.map(([, shares, from]) => [from, shares]))).toEqual(
    new Map([
      ['a', '42'],
      ['b', '43'],
    ]),
  )
  expect(moved.every(([, , , messages]) => Number(messages) > 0)).toBe(true)
  expect((await store(file, 'shares')).stdout).toMatch(/a +86 .*\nb +85 .*\nc +85 /)
  expect(await store(file, 'balance')).toEqual({
    code: 0,
    stdout: 'All shares are where they should be.\n',
    stderr: '',
  })

  expect((await store(file, 'move', '--from', 'c', '--to', 'a', '--json')).code).toBe(0)
  expect((await store(file, 'shares')).stdout).toMatch(/a +171 .*\nb +85 .*\nc +0 /)
  expect((await store(file, 'move', '--share', '75,76', '--to', 'b')).code).toBe(0)
  expect((await store(file, 'shares', '--source', 'web')).stdout).toBe('share 75, server b\n')
  const { shares } = JSON.parse((await store(file, 'shares', '--json')).stdout) as {
    shares: { server: string; former: unknown[] }[]
  }
  expect(shares[75]).toMatchObject({ share: 75, server: 'b', next: null })
})

test('refuses what it can not do, and changes nothing', async () => {
  const [a, b] = [await place('a'), await place('b')]
  const file = fileWith([a, b])
  const refused = async (pattern: RegExp, ...args: string[]) => {
    const { code, stderr } = await store(file, ...args)
    expect(stderr).toMatch(pattern)
    expect(code).toBe(2)
  }
  await refused(/either --share or --from/, 'move', '--to', 'b')
  await refused(/either --share or --from/, 'move', '--from', 'a', '--share', '1', '--to', 'b')
  await refused(/numbers from 0 to 255/, 'move', '--share', '256', '--to', 'b')
  await refused(/there is no server "x" in the settings/, 'move', '--share', '1', '--to', 'x')
  await refused(/there is no server "x" in the settings/, 'move', '--from', 'x', '--to', 'b')
  const single = await store(fileWith(a.url), 'shares')
  expect(single.code).toBe(2)
  expect(single.stderr).toMatch(/names a single server/)
  expect((await store(file, 'shares')).stdout).toMatch(/a +128 .*\nb +128 /)
})

test('says what to do if a server is away, and takes nothing from the other one', async () => {
  const [a, b] = [await place('a'), await place('b')]
  await (await openStore([a, b])).close()
  const away = { ...b, url: b.url.replace(/:\d+\//, ':1/') }
  const { code, stderr } = await store(fileWith([a, away]), 'move', '--from', 'a', '--to', 'b')
  expect(code).toBe(3)
  expect(stderr).toMatch(
    /server b: .*\nWhat has begun continues when you run the same command again/,
  )
  const again = fileWith([a, b])
  expect((await store(again, 'shares')).stdout).toMatch(/a +128 +0 +0 .*\nb +128 +0 +0 /)
  expect((await store(again, 'move', '--from', 'a', '--to', 'b')).code).toBe(0)
  expect((await store(again, 'shares')).stdout).toMatch(/a +0 +0 +0 +128 .*\nb +256 /)
})

test('a single share and a single message are told of as such', async () => {
  const [a, b] = [await place('a'), await place('b')]
  const single = await openStore(a.url)
  await single.put([newDelivery({ source: 'web' })])
  await single.close()
  // The share of the source "web" is 75.
  expect((await store(fileWith([a, b]), 'move', '--share', '75', '--to', 'b')).stdout).toBe(
    '1 share from a to b: 1 waiting message was moved. Done.\n',
  )
})

describe('migrate', () => {
  const migrate = (from: string, to: string, ...more: string[]) =>
    runInside(['migrate', '--from', from, '--to', to, ...more])

  test('from the home says what other servers may still have, and does not claim that all was moved', async () => {
    const [a, b] = [await place('a'), await place('b')]
    await (await openStore([a, b])).close()
    expect((await store(fileWith([a, b]), 'move', '--from', 'b', '--to', 'a')).code).toBe(0)
    const to = await server.database()
    const { code, stdout } = await migrate(a.url, to)
    expect(code).toBe(1)
    expect(stdout).toMatch(
      /^All that .* has is in .*was not moved: shares of this store came from b, where the dead letters/m,
    )
    expect(stdout).not.toContain('Everything')
    const json = await migrate(a.url, to, '--json')
    expect(json.code).toBe(1)
    expect(JSON.parse(json.stdout)).toMatchObject({ different: 0, formerServers: ['b'] })
  })

  test.each([
    ['a database that does not exist', () => server.url('nowhere'), 2],
    ['a wrong password', () => server.url().replace(':secret@', ':wrong@'), 2],
    ['a server that does not answer', () => 'postgres://u:p@127.0.0.1:1/db', 1],
  ])('ends with %s, whichever option names it', async (_, url, expected) => {
    const works = await server.database()
    await (await openStore(works)).close()
    const from = await migrate(url(), works)
    expect(from).toMatchObject({
      code: expected,
      stderr: expect.stringMatching(/^--from: /) as unknown,
    })
    const to = await migrate(works, url())
    expect(to).toMatchObject({
      code: expected,
      stderr: expect.stringMatching(/^--to: /) as unknown,
    })
  })
})
