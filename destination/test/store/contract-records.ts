import fc from 'fast-check'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { LogEntry, RecordChange, Store, StoredRecord } from '../../src/store/store.js'
import type { Subject } from './contract.js'
import { rounds } from '../rounds.js'

const CONFLICT = { name: 'StoreError', code: 'conflict' }

/** Whoever follows the changes from page to page, and the state that this gives. */
class Follower {
  readonly #records = new Map<string, StoredRecord>()
  #at = 0

  async follow(store: Store, limit = 2): Promise<ReadonlyMap<string, StoredRecord>> {
    const { forgotten } = await store.records(this.#at, 1)
    if (this.#at < forgotten) {
      this.#at = 0
      this.#records.clear()
    }
    for (;;) {
      const { records, revision } = await store.records(this.#at, limit)
      for (const record of records) {
        const key = `${record.kind} ${record.name}`
        if (record.body === undefined) this.#records.delete(key)
        else this.#records.set(key, record)
        expect(record.version).toBeGreaterThan(this.#at)
        this.#at = record.version
      }
      if (records.length === limit) continue
      this.#at = revision
      return this.#records
    }
  }
}

/** The tests of the records, which every store passes, whatever its database is. */
export function recordsContract(name: string, make: () => Promise<Subject>): void {
  describe(`${name}: the records`, () => {
    let subject: Subject
    let store: Store

    beforeEach(async () => {
      subject = await make()
      store = subject.store
    })

    afterEach(async () => {
      await subject.dispose()
    })

    const change = (changes: Partial<RecordChange> = {}): RecordChange => ({
      kind: 'source',
      name: 'web',
      version: 0,
      body: '{}',
      ...changes,
    })

    /** All records. What a store says of its history is its own. */
    const present = async () => {
      const { records, revision, forgotten } = await store.records(0, 9)
      return { records, revision, forgotten }
    }

    test('of a new store are none', async () => {
      expect(await present()).toEqual({ records: [], revision: 0, forgotten: 0 })
      expect(await store.recordLog(undefined, undefined, 9)).toEqual([])
    })

    test('are what was written last, also after the store was opened again', async () => {
      expect(
        await store.writeRecords([
          change({ body: 'a' }),
          change({ name: 'app', body: 'b' }),
          change({ kind: 'destination', body: 'c' }),
        ]),
      ).toEqual([1, 2, 3])
      expect(await store.writeRecords([change({ version: 1, body: 'd' })])).toEqual([4])
      const expected = {
        records: [
          { kind: 'source', name: 'app', version: 2, body: 'b' },
          { kind: 'destination', name: 'web', version: 3, body: 'c' },
          { kind: 'source', name: 'web', version: 4, body: 'd' },
        ],
        revision: 4,
        forgotten: 0,
      }
      expect(await present()).toEqual(expected)
      store = await subject.reopen()
      expect(await present()).toEqual(expected)
      expect((await store.records(2, 1)).records).toEqual([expected.records[1]])
    })

    test('a deleted record is told to followers, and can be created again with a new version', async () => {
      await store.writeRecords([change(), change({ name: 'app' })])
      expect(await store.writeRecords([change({ version: 1, body: undefined })])).toEqual([3])
      expect((await store.records(0, 9)).records.map(({ name }) => name)).toEqual(['app'])
      expect((await store.records(2, 9)).records).toEqual([
        { kind: 'source', name: 'web', version: 3, body: undefined },
      ])
      expect(await store.writeRecords([change()])).toEqual([4])
    })

    test.each([
      ['exists already', change(), /expected not to exist, but it has the version 1/],
      ['has another version', change({ version: 7 }), /version 7, but it has the version 1/],
      ['does not exist', change({ name: 'x', version: 1 }), /but it does not exist/],
      ['was deleted', change({ name: 'gone', version: 3 }), /but it does not exist/],
      [
        'is to be deleted and does not exist',
        change({ name: 'x', version: 1, body: undefined }),
        /not exist/,
      ],
    ])('a change of a record that %s changes nothing', async (_, wrong, message) => {
      await store.writeRecords([change({ body: 'a' }), change({ name: 'gone' })])
      await store.writeRecords([change({ name: 'gone', version: 2, body: undefined })])
      const before = await store.records(0, 9)
      const changes = [change({ name: 'new', entry: 'no' }), wrong]
      await expect(store.writeRecords(changes)).rejects.toMatchObject({
        ...CONFLICT,
        message: expect.stringMatching(message) as string,
      })
      expect(await store.records(0, 9)).toEqual(before)
      expect(await store.recordLog(undefined, undefined, 9)).toEqual([])
      // The store still takes other calls.
      expect(await store.writeRecords([change({ name: 'new' })])).toEqual([4])
    })

    test('a change that was decided by an older revision changes nothing', async () => {
      await store.writeRecords([change()])
      const { revision } = await store.records(0, 9)
      await store.writeRecords([change({ name: 'app' })], revision)
      await expect(store.writeRecords([change({ name: 'new' })], revision)).rejects.toMatchObject(
        CONFLICT,
      )
      expect((await store.records(0, 9)).records).toHaveLength(2)
    })

    test('of two that change the same record at once, one succeeds', async () => {
      const bodies = Array.from({ length: 8 }, (_, i) => `body ${i}`)
      const results = await Promise.allSettled(
        bodies.map((body) => store.writeRecords([change({ body, entry: body })])),
      )
      const winners = bodies.filter((_, i) => results[i]?.status === 'fulfilled')
      expect(winners).toHaveLength(1)
      expect((await store.records(0, 9)).records).toMatchObject([{ version: 1, body: winners[0] }])
      const log = await store.recordLog(undefined, undefined, 9)
      expect(log.map(({ entry }) => entry)).toEqual(winners)
    })

    test('keep texts as they are, whatever they are made of', async () => {
      const odd = ['"quoted"', 'a\0b', '\ud800', '\x1a0000', 'ü', ' ', "'; DROP TABLE records"]
      await store.writeRecords(
        odd.map((text) => change({ kind: text, name: text, body: text, entry: text })),
      )
      expect(
        (await store.records(0, 9)).records.map(({ kind, name, body }) => [kind, name, body]),
      ).toEqual(odd.map((text) => [text, text, text]))
      for (const text of odd) {
        const log = await store.recordLog({ kind: text, name: text }, undefined, 9)
        expect(log).toMatchObject([{ kind: text, name: text, entry: text }])
      }
    })

    test('the log has the entries of the changes, the newest first, and only those of one record if asked', async () => {
      const at: number[] = []
      for (let version = 0; version < 5; version++) {
        at.unshift(subject.now())
        await store.writeRecords([
          change({ version: version === 0 ? 0 : 2 * version - 1, entry: `web ${version}` }),
          change({ name: `app ${version}`, ...(version < 4 && { entry: `app ${version}` }) }),
        ])
        subject.advance(1_000)
      }
      const all = await store.recordLog(undefined, undefined, 99)
      expect(all.map(({ entry }) => entry)).toEqual([
        'web 4',
        ...['app 3', 'web 3', 'app 2', 'web 2', 'app 1', 'web 1', 'app 0', 'web 0'],
      ])
      const web = { kind: 'source', name: 'web' }
      const first = await store.recordLog(web, undefined, 3)
      const rest = await store.recordLog(web, first[2]?.id, 3)
      const entries = [...first, ...rest]
      expect(entries.map(({ entry }) => entry)).toEqual([
        'web 4',
        'web 3',
        'web 2',
        'web 1',
        'web 0',
      ])
      expect(entries.map((entry) => entry.at)).toEqual(at)
    })

    test('old entries and old deletions are forgotten, and a follower that missed one learns that it did', async () => {
      await store.writeRecords([change({ entry: 'created' }), change({ name: 'app' })])
      const follower = new Follower()
      expect((await follower.follow(store)).size).toBe(2)
      await store.writeRecords([change({ version: 1, body: undefined, entry: 'deleted' })])
      subject.advance(1_000)
      await store.writeRecords([change({ name: 'new', entry: 'new' })])
      expect(await store.forgetRecords(1_000, 9)).toBe(0)
      subject.advance(1)
      expect(await store.forgetRecords(1_000, 2)).toBe(2)
      expect(await store.forgetRecords(1_000, 2)).toBe(1)
      expect(await store.forgetRecords(1_000, 2)).toBe(0)
      expect(await store.recordLog(undefined, undefined, 9)).toMatchObject([{ entry: 'new' }])
      expect(await store.records(2, 9)).toMatchObject({ records: [{ name: 'new' }], forgotten: 3 })
      expect([...(await follower.follow(store)).keys()]).toEqual(['source app', 'source new'])
    })

    test('are copied from another store without those that are or were there, and again without effect', async () => {
      await store.writeRecords([change({ body: 'mine' })])
      const others: StoredRecord[] = [
        { kind: 'source', name: 'web', version: 9, body: 'theirs' },
        { kind: 'source', name: 'app', version: 10, body: 'theirs' },
      ]
      expect(await store.copyRecordsIn(others, 20)).toEqual([false, true])
      expect(await store.copyRecordsIn(others, 20)).toEqual([false, false])
      expect(await store.records(0, 9)).toMatchObject({
        records: [
          { name: 'web', version: 1, body: 'mine' },
          // No version of the other store comes back.
          { name: 'app', version: 21, body: 'theirs' },
        ],
        revision: 21,
      })
      await store.writeRecords([change({ name: 'app', version: 21, body: undefined })])
      expect(await store.copyRecordsIn(others, 20)).toEqual([false, false])
      const entry = (at: number, text: string): LogEntry => ({
        ...{ id: at, at, kind: 'source', name: 'app', entry: text },
      })
      const [old, newer] = [entry(subject.now() - 5, 'a'), entry(subject.now() - 4, 'b')]
      await store.copyLogIn([old])
      await store.copyLogIn([old, newer])
      const log = await store.recordLog(undefined, undefined, 9)
      expect(log.map(({ at, entry }) => [at, entry])).toEqual([
        [newer.at, 'b'],
        [old.at, 'a'],
      ])
    })

    test('are those of a plain map, whatever is changed, refused and followed in whichever slices', async () => {
      const names = ['a', 'b', 'c', 'd']
      const step = fc.record({
        changes: fc.uniqueArray(
          fc.record({
            name: fc.constantFrom(...names),
            isDeleted: fc.boolean(),
            /** Whether the change expects the version that the record has. */
            isRight: fc.constantFrom(true, true, true, true, false),
          }),
          { selector: ({ name }) => name, minLength: 1, maxLength: 3 },
        ),
        guard: fc.constantFrom('none', 'right', 'stale'),
        follows: fc.boolean(),
        limit: fc.integer({ min: 1, max: 4 }),
        forgets: fc.constantFrom(false, false, true),
        reopens: fc.constantFrom(...Array.from({ length: 9 }, () => false), true),
      })
      let round = 0
      let written = 0
      await fc.assert(
        fc.asyncProperty(fc.array(step, { maxLength: 12 }), async (steps) => {
          const kind = `kind ${++round}`
          const model = new Map<string, { version: number; body: string }>()
          const follower = new Follower()
          await follower.follow(store, 1_000)
          for (const [
            at,
            { changes, guard, follows, limit, forgets, reopens },
          ] of steps.entries()) {
            const { revision } = await store.records(0, 1)
            const asked = changes.map(({ name, isDeleted, isRight }): RecordChange => {
              const version = (model.get(name)?.version ?? 0) + (isRight ? 0 : 1_000_000)
              // A record that does not exist can't be deleted: that would write a deletion of nothing.
              const body = isDeleted && model.has(name) ? undefined : `${at}`
              return { kind, name, version, body, entry: `${at}` }
            })
            const isRefused = changes.some(({ isRight }) => !isRight) || guard === 'stale'
            const since = guard === 'none' ? undefined : guard === 'right' ? revision : revision - 1
            const result = await store
              .writeRecords(asked, since)
              .catch((error: unknown) => error as Error)
            if (isRefused) expect(result).toMatchObject(CONFLICT)
            else {
              written++
              expect(result).toEqual(asked.map((_, i) => revision + 1 + i))
              for (const [i, { name, body }] of asked.entries()) {
                if (body === undefined) model.delete(name)
                else model.set(name, { version: revision + 1 + i, body })
              }
            }
            if (reopens) store = await subject.reopen()
            subject.advance(1)
            if (forgets) await store.forgetRecords(0, 3)
            if (!follows) continue
            const seen = [...(await follower.follow(store, limit)).values()]
              .filter((record) => record.kind === kind)
              .map(({ name, version, body }) => [name, { version, body }] as const)
            expect(new Map(seen)).toEqual(model)
          }
        }),
        { numRuns: rounds(12) },
      )
      expect(written).toBeGreaterThan(rounds(12) / 2)
    }, 60_000)
  })
}
