import { join } from 'node:path'
import { expect, test } from 'vitest'
import { addServe } from '../../src/cli/serve.js'
import { startDestination } from '../../src/destination.js'
import { runInside } from './inside.js'
import { folderWith } from './process.js'

// What `serve` says of a store before it has one.

const COMMANDS = [addServe(startDestination)]

function configWith(store?: string): string {
  const folder = folderWith({
    listen: '127.0.0.1:0',
    store,
    sources: [{ name: 'web', writeKey: 'key' }],
    destinations: [
      { name: 'crm', sources: ['web'], webhooks: [{ url: 'https://a.example.com/' }] },
    ],
  })
  return join(folder, 'hookline.config.json')
}

test('a role that needs others ends with 2 where nobody can share the store', async () => {
  const config = configWith()
  for (const args of [[], ['--check']]) {
    const all = ['serve', '--config', config, '--role', 'worker', ...args]
    const { code, stdout, stderr } = await runInside(all, COMMANDS)
    expect([code, stdout]).toEqual([2, ''])
    expect(stderr).toContain('a worker alone can do nothing with SQLite')
    expect(stderr).toContain('set "store" to a postgres:// URL')
  }
  const wrong = await runInside(['serve', '--role', 'sender'], COMMANDS)
  expect(wrong.code).toBe(2)
  expect(wrong.stderr).toContain('Allowed choices are all, collector, worker.')
})

test('the password of the store is never shown', async () => {
  const cases = [
    { store: 'postgres://u:hush-hush@127.0.0.1:1/db', code: 1, said: 'nothing listens there' },
    { store: 'postgres://u:hush-hush/@h/db', code: 2, said: 'the URL can not be read' },
    { store: 'postgres://u:hush-hush@h/db?sslmode=prefer', code: 2, said: 'sslmode=prefer' },
  ]
  for (const { store, code, said } of cases) {
    const config = configWith(store)
    for (const args of [[], ['--role', 'worker'], ['--check'], ['--check', '--json']]) {
      const ended = await runInside(['serve', '--config', config, ...args], COMMANDS)
      expect(ended.stdout + ended.stderr).not.toContain('hush-hush')
      if (args.includes('--check')) continue
      expect(ended.code).toBe(code)
      expect(ended.stdout + ended.stderr).toContain(said)
    }
  }
})
