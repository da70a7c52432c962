// @module-tag long
// What a deletion leaves in the bytes of the files, with random users and texts. The seed is in the name of each round: set SEED to
// see one again.
import { cpSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import type { Delivery, NewDelivery } from '../../../src/model/delivery.js'
import { openStore } from '../../../src/store/open.js'
import { LEASE_MS, type Store } from '../../../src/store/store.js'
import { connect } from '../../../src/store/sqlite/connection.js'
import { rewrite } from '../../../src/store/sqlite/rewrite.js'
import { loadDriver } from '../../../src/store/sqlite/driver.js'
import { newDelivery, settlement } from '../contract.js'
import { folder } from './subject.js'

const openDatabase = await loadDriver()

const { SEED } = process.env
const SEEDS = SEED === undefined ? [1, 2] : [Number(SEED)]

const LANES = ['fresh', 'backlog', 'bulk'] as const

/** A number from 0 up to 1 that depends on a seed alone. */
function randomFrom(seed: number) {
  let state = seed >>> 0
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return state / 2 ** 32
  }
}

/** Names that occur nowhere else, of random length, so that rows have all sizes. */
function createNames(random: () => number) {
  let count = 0
  const letters = (length: number) =>
    Array.from({ length }, () => String.fromCharCode(97 + Math.floor(random() * 26))).join('')
  return (prefix: string, most: number) =>
    `${prefix}-${letters(8)}${count++}-${letters(Math.floor(random() ** 3 * most))}`
}

/** One user with everything that is stored of them. */
interface Person {
  id: string
  texts: string[]
}

/** The life of a store: puts, attempts, retries, replays, audiences and sweeps in random order. */
async function live(store: Store, random: () => number, advance: (ms: number) => void) {
  const name = createNames(random)
  const pick = <T>(from: readonly T[]) => from[Math.floor(random() * from.length)] as T
  const people: Person[] = Array.from({ length: 40 }, () => ({ id: name('user', 60), texts: [] }))
  const byMessage = new Map<string, Person>()

  const deliveryOf = (person: Person): NewDelivery => {
    const texts = [name('event', 60), name('value', random() < 0.1 ? 9_000 : 900)]
    const messageId = name('message', 40)
    person.texts.push(...texts)
    byMessage.set(messageId, person)
    const body = JSON.stringify({ userId: person.id, event: texts[0], properties: texts[1] })
    const state = pick(['fresh', 'backlog', 'bulk', 'skipped'] as const)
    return newDelivery({ messageId, user: person.id, event: texts[0], body, state })
  }
  const outcomeOf = (delivery: Delivery) => {
    const person = byMessage.get(delivery.messageId)
    const response = `${name('answer', random() < 0.2 ? 2_000 : 100)} about ${person?.id}`
    person?.texts.push(response)
    const log = [
      {
        url: 'https://a.example.com/',
        code: 'server_error',
        status: 500,
        ms: 1,
        error: response,
        response,
      } as const,
    ]
    const next = pick([
      { state: 'done' },
      { state: 'backlog', delayMs: random() * 1_000 },
      { state: 'dead', reason: `refused: ${response}` },
    ] as const)
    return settlement(delivery, next, { log, refusedBy: random() < 0.3 ? [response] : [] })
  }
  const steps = [
    () =>
      store.put(
        Array.from({ length: 1 + Math.floor(random() * 40) }, () => deliveryOf(pick(people))),
      ),
    async () => {
      const claims = LANES.map((lane) => ({
        destination: 'crm',
        lane,
        limit: Math.floor(random() * 30),
      }))
      const claimed = await store.claim(claims)
      const settled = claimed.filter(() => random() < 0.95)
      await store.settle(settled.map(outcomeOf))
      advance(random() < 0.05 ? LEASE_MS : 500)
    },
    async () => {
      const { deliveries } = await store.find({ states: ['dead'] }, undefined, 20)
      await store.replay(
        deliveries.map(({ id }) => id),
        false,
      )
    },
    async () => {
      const sync = await store.beginSync('vip', [{ name: 'crm', enabled: true }])
      const before = JSON.stringify({ traits: name('trait', 40) })
      const messages = [{ source: 'audience:vip', destination: 'crm', before, after: '' }]
      await store.join(
        sync,
        people.filter(() => random() < 0.5).map(({ id }) => id),
        messages,
      )
      await store.leave(sync, '', 1_000, messages)
    },
    () => store.sweep(60_000, 200),
    () => store.copyOut(0, 10),
  ]
  for (let i = 0; i < 150; i++) await pick([...steps.slice(0, 2), ...steps.slice(0, 2), ...steps])()
  return people
}

/** The texts that are in the bytes of any file of a folder, each with the names of those files. */
function foundIn(path: string, texts: readonly string[]): string[] {
  const files = readdirSync(path).map((file) => ({ file, bytes: readFileSync(join(path, file)) }))
  return texts.flatMap((text) =>
    files
      .filter(({ bytes }) => bytes.includes(text))
      .map(({ file }) => `${text.slice(0, 30)} in ${file}`),
  )
}

/** The texts of a person that are in the files. The start of a text is enough: a long one continues on another page. */
function remainsOf({ id, texts }: Person, path: string): string[] {
  return foundIn(path, [id, ...texts.map((text) => text.slice(0, 18))])
}

async function purge(store: Store, { id }: Person): Promise<void> {
  for (let from: number | undefined = 0; from !== undefined;) {
    from = (await store.purgeUser(id, from)).next
  }
}

const DAY = 86_400_000

/** A sweep in which the store copies its own log leaves the bytes to the next one, as the retention does. */
async function remainsAfterSweep({
  store,
  gone,
  path,
}: {
  store: Store
  gone: Person
  path: string
}) {
  while ((await store.sweep(DAY, 1_000)) === 1_000);
  return remainsOf(gone, path)
}

/** A store after some life, and the people of whom it has something. */
async function lived(seed: number) {
  const place = await folder()
  let time = 1_700_000_000_000
  const advance = (ms: number) => void (time += ms)
  const now = () => time
  const store = await openStore(`sqlite:${place.path}/store.db`, { now })
  const [gone, ...others] = await live(store, randomFrom(seed), advance)
  if (!gone) throw new Error('there are no people')
  const dispose = async () => {
    await store.close()
    await place[Symbol.asyncDispose]()
  }
  return { path: place.path, store, gone, others, now, advance, [Symbol.asyncDispose]: dispose }
}

test.each(SEEDS)(
  'a user who was deleted is in no file of the store, with seed %i',
  async (seed) => {
    await using subject = await lived(seed)
    const { path, store, gone, others } = subject
    await purge(store, gone)
    expect(remainsOf(gone, path)).toEqual([])
    const kept = foundIn(
      path,
      others.map(({ id }) => id),
    )
    expect(kept.length).toBeGreaterThan(30)
  },
  60_000,
)

test.each(SEEDS)(
  'the delete that was sent for a user is in no file of the store after the retention, with seed %i',
  async (seed) => {
    await using subject = await lived(seed)
    const { path, store, gone, advance } = subject
    const body = JSON.stringify({ type: 'delete', userId: gone.id })
    const messageId = 'delete-0'
    await store.put([
      newDelivery({ messageId, type: 'delete', user: gone.id, body, destination: 'erp' }),
    ])
    await purge(store, gone)
    const [claimed] = await store.claim([{ destination: 'erp', lane: 'fresh', limit: 1 }])
    if (!claimed) throw new Error('the delete is not due')
    const response = `${gone.id} is deleted`
    const post = { url: 'u', code: 'delivered', status: 200, ms: 1, error: null, response } as const
    await store.settle([settlement(claimed, { state: 'done' }, { log: [post] })])
    expect(foundIn(path, [gone.id])).not.toEqual([])
    advance(DAY + 1)
    await expect.poll(() => remainsAfterSweep(subject)).toEqual([])
  },
  60_000,
)

test('what another program keeps in the log is gone after a later sweep, also of the next process', async () => {
  await using subject = await lived(1)
  await using killed = await folder()
  const { path, store, gone } = subject
  const reader = openDatabase(join(path, 'store.db'))
  reader.exec('BEGIN')
  reader.prepare('SELECT count(*) FROM deliveries').get()
  await purge(store, gone)
  expect(remainsOf(gone, path)).not.toEqual([])
  reader.close()
  cpSync(path, killed.path, { recursive: true })
  await expect.poll(() => remainsAfterSweep(subject)).toEqual([])

  const next = await openStore(`sqlite:${killed.path}/store.db`, { now: subject.now })
  expect(remainsOf(gone, killed.path)).not.toEqual([])
  const after = () => remainsAfterSweep({ store: next, gone, path: killed.path })
  await expect.poll(after).toEqual([])
  await next.close()
})

test('a row of a file that is too large to be rewritten is overwritten in its place', async () => {
  await using place = await folder()
  const connection = connect(openDatabase, join(place.path, 'store.db'))
  const { database, put, user } = connection
  const bodies = Array.from({ length: 20 }, (_, i) => `value-${i}-${'x'.repeat(i * 500)}`)
  for (const body of bodies)
    put.one(newDelivery({ user: 'user-gone', event: 'event-gone', body }), 1)
  for (const body of bodies) put.one(newDelivery({ user: 'user-kept', body: `kept-${body}` }), 1)
  const texts = ['user-gone', 'event-gone', 'user-kept', 'kept-value-19']
  database.exec('PRAGMA wal_checkpoint(TRUNCATE)')
  expect(foundIn(place.path, ['user-gone', 'event-gone'])).toHaveLength(2)
  user.purge('user-gone', 0)
  expect(rewrite(database, 0, 0)).toBe(true)
  expect(foundIn(place.path, texts)).toEqual(['user-kept in store.db', 'kept-value-19 in store.db'])
  expect(readFileSync(join(place.path, 'store.db')).toString('latin1')).not.toMatch(
    /(?<!kept-)value/,
  )
  database.close()
})
