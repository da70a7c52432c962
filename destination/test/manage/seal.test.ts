import { createDecipheriv } from 'node:crypto'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { createSealer, keyIdOf } from '../../src/manage/seal.js'
import { openStore } from '../../src/store/open.js'
import { anyCharacter } from '../../../test/characters.js'
import { loadDriver } from '../../src/store/sqlite/driver.js'
import { post, settingsFor, silent, start, track } from '../run.js'
import { ask, OTHER_KEY, SETTINGS_KEY } from './api.js'

const sealer = createSealer([SETTINGS_KEY])
const ABOUT = { kind: 'source', name: 'web' }

describe('a sealed text', () => {
  test('is opened again, whatever it is, and never looks the same twice', () => {
    const key = fc.record({ kind: fc.constantFrom('source', 'destination'), name: fc.string() })
    fc.assert(
      fc.property(key, fc.string({ unit: anyCharacter }), (about, text) => {
        const sealed = sealer.seal(about, text)
        expect(sealer.open(about, sealed)).toBe(text.toWellFormed())
        expect(sealer.seal(about, text)).not.toBe(sealed)
      }),
    )
  })

  test('is AES-256-GCM with the kind and the name as additional data', () => {
    const [, , nonce = '', data = ''] = sealer.seal(ABOUT, 'text').split('.')
    const bytes = Buffer.from(data, 'base64url')
    const key = Buffer.from(SETTINGS_KEY, 'base64')
    const decipher = createDecipheriv('aes-256-gcm', key, Buffer.from(nonce, 'base64url'))
    decipher.setAAD(Buffer.from('source\0web'))
    decipher.setAuthTag(bytes.subarray(-16))
    const text = decipher.update(bytes.subarray(0, -16), undefined, 'utf8') + decipher.final('utf8')
    expect(text).toBe('text')
  })

  test('with any other bit, for another record or with another key is not opened', () => {
    const sealed = sealer.seal(ABOUT, 'text')
    const changed = /changed in the store/
    expect(() => sealer.open({ ...ABOUT, name: 'app' }, sealed)).toThrow(changed)
    expect(() => sealer.open({ ...ABOUT, kind: 'destination' }, sealed)).toThrow(changed)
    expect(() => createSealer([OTHER_KEY]).open(ABOUT, sealed)).toThrow(/Add the key/)
    const [version = '', id = '', nonce = '', data = ''] = sealed.split('.')
    const flipped = (text: string, bit: number) => {
      const bytes = Buffer.from(text, 'base64url')
      bytes[bit >> 3] = (bytes[bit >> 3] ?? 0) ^ (1 << (bit & 7))
      return bytes.toString('base64url')
    }
    const bitsOf = (text: string) => Buffer.from(text, 'base64url').length * 8
    for (let bit = 0; bit < bitsOf(data); bit++) {
      const wrong = [version, id, nonce, flipped(data, bit)].join('.')
      expect(() => sealer.open(ABOUT, wrong)).toThrow(changed)
    }
    for (let bit = 0; bit < bitsOf(nonce); bit++) {
      const wrong = [version, id, flipped(nonce, bit), data].join('.')
      expect(() => sealer.open(ABOUT, wrong)).toThrow(changed)
    }
    for (let length = 0; length < data.length; length++) {
      const wrong = [version, id, nonce, data.slice(0, length)].join('.')
      expect(() => sealer.open(ABOUT, wrong)).toThrow()
    }
  })

  test('is opened by each of the keys, and sealed by the first', () => {
    const both = createSealer([OTHER_KEY, SETTINGS_KEY])
    const old = sealer.seal(ABOUT, 'text')
    expect(both.open(ABOUT, old)).toBe('text')
    expect(keyIdOf(old)).not.toBe(both.keyId)
    expect(both.has(keyIdOf(old))).toBe(true)
    const sealed = both.seal(ABOUT, 'text')
    expect(keyIdOf(sealed)).toBe(both.keyId)
    expect(() => sealer.open(ABOUT, sealed)).toThrow(/Add the key/)
  })
})

test('no process starts with a record that somebody has copied to another name in the database', async () => {
  const settings = settingsFor([], { settingsKeys: [SETTINGS_KEY] })
  const first = await start(settings)
  await ask(first, 'PUT', '/sources/app', { writeKey: 'app-key' })
  await first.close()
  const store = await openStore(settings.store)
  const [{ body } = { body: '' }] = (await store.records(0, 1)).records
  await store.writeRecords([{ kind: 'source', name: 'other', version: 0, body }])
  await store.close()
  await expect(start(settings)).rejects.toThrow(
    'The store: the source "other": it was changed in the store, or belongs to another record.',
  )
})

test.each(['copied', 'changed'])(
  'a record that is %s in the database is not used by a running process, and its log says so',
  async (how) => {
    const settings = settingsFor([], { settingsKeys: [SETTINGS_KEY] })
    const errors: object[] = []
    const log = { ...silent, error: (fields: object) => errors.push(fields) }
    const running = await start(settings, log)
    await ask(running, 'PUT', '/sources/app', { writeKey: 'app-key' })
    await ask(running, 'PUT', '/sources/other', { writeKey: 'other-key' })
    const database = (await loadDriver())((settings.store as string).slice('sqlite:'.length))
    const body = how === 'copied' ? "(SELECT body FROM records WHERE name = 'app')" : "body || 'A'"
    database.exec(
      `BEGIN IMMEDIATE;
       UPDATE revisions SET revision = revision + 1;
       UPDATE records SET version = (SELECT revision FROM revisions), body = ${body} WHERE name = 'other';
       COMMIT`,
    )
    database.close()
    await expect
      .poll(() => errors)
      .toEqual([
        {
          ...{ kind: 'source', name: 'other' },
          message: 'it was changed in the store, or belongs to another record. Create it again.',
        },
      ])
    const [app, other] = ['app-key', 'other-key'].map((key) => post(running, [track('m')], key))
    expect([(await app)?.status, (await other)?.status]).toEqual([200, 200])
  },
)
