// Servers that crash and come back, processes that are killed, and shares that move, all at times that a seed decides. Whatever
// happens, all that was accepted is sent, nothing is sent again without a reason, and nothing waits for a server that is away but what
// it has. `SEED=17 npx vitest run --project destination-faults several/random` plays a round again, though not to the millisecond.
import { fork, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as pause } from 'node:timers/promises'
import { afterAll, expect, inject, test } from 'vitest'
import { openPostgres } from '../../../src/store/postgres/store.js'
import { openSeveral } from '../../../src/store/several/open.js'
import { shareOf } from '../../../src/store/shares.js'
import type { Servers } from '../../../src/store/servers.js'
import { LEASE_MS, type Store } from '../../../src/store/store.js'
import { rounds } from '../../rounds.js'
import { newDelivery } from '../contract.js'
import { startServer, type Server } from '../postgres/server.js'
import { chance } from './chance.js'
import { NAMES } from './subject.js'

const servers = await Promise.all(NAMES.map(() => startServer({ fsync: 'off' })))
afterAll(() => Promise.all(servers.map((server) => server.dispose())))

const WORKER = new URL('worker.js', import.meta.url)
const MOVER = new URL('mover.js', import.meta.url)

const SOURCES = Array.from({ length: 12 }, (_, i) => `source${i}`)
const ACTS = 30

/** In ms: what happens so shortly before or after something else may have to do with it. */
const NEAR_MS = 1_500

interface Sending {
  at: number
  worker: ChildProcess
  /** When the worker was told that the message is done; `undefined` if it was not, or if the message is to be sent again. */
  doneAt?: number
  isToRepeat?: boolean
}

const seeds = process.env['SEED']
  ? [Number(process.env['SEED'])]
  : Array.from({ length: rounds(1) }, () => Math.floor(Math.random() * 1e6))

test.each(seeds)(
  'a round loses nothing and holds up nothing: SEED=%i',
  { timeout: 900_000 },
  async (seed) => {
    const { below, of } = chance(seed)
    const why = `SEED=${seed}`
    const places = await Promise.all(
      NAMES.map(async (name, i) => ({ name, url: await (servers[i] as Server).database() })),
    )
    let off = 0
    let jumpedAt = Infinity
    const children = new Set<ChildProcess>()
    const workers = new Set<ChildProcess>()
    const killed = new Map<ChildProcess, number>()
    const sendings = new Map<string, Sending[]>()
    const accepted = new Set<string>()
    /** Messages that came twice while a server was away, which may have had them. */
    const unsure = new Set<string>()
    /** Messages that came twice and were not recognized. */
    const forgotten = new Set<string>()
    const aways: { from: number; to: number }[] = []
    let mover: ChildProcess | undefined

    const run = (file: URL, ...args: string[]): ChildProcess => {
      const child = fork(file, [inject('compiledDir'), JSON.stringify(places), ...args], {
        execArgv: [],
        env: { ...process.env, OFF_MS: String(off) },
      })
      children.add(child)
      child.once('exit', () => children.delete(child))
      return child
    }
    const kill = async (child: ChildProcess) => {
      killed.set(child, Date.now())
      workers.delete(child)
      await end(child)
    }
    const end = async (child: ChildProcess) => {
      if (child.exitCode !== null || child.signalCode !== null) return
      child.kill('SIGKILL')
      await once(child, 'exit')
    }
    const startWorker = async () => {
      const worker = run(WORKER)
      workers.add(worker)
      worker.on('message', (said: Record<'sent' | 'done' | 'again', string | undefined>) => {
        const name = said.sent ?? said.done ?? said.again
        if (name === undefined) return
        const known = sendings.get(name) ?? []
        sendings.set(name, known)
        if (said.sent !== undefined) known.push({ at: Date.now(), worker })
        const last = known.findLast((one) => one.worker === worker)
        if (last && said.done !== undefined) last.doneAt = Date.now()
        if (last && said.again !== undefined) last.isToRepeat = true
      })
      await once(worker, 'message')
    }
    const store: Store = await openSeveral(
      places.map(({ name, url }) => ({
        name,
        open: () => openPostgres(url, () => Date.now() + off, false, true),
      })),
    )
    const all = store.servers as Servers

    let count = 0
    const put = async (source: string, messageId = `m${count++}`) => {
      const state = of(['fresh', 'backlog', 'bulk'] as const)
      try {
        const [id] = await store.put([newDelivery({ source, messageId, state })])
        if (accepted.has(`${source} ${messageId}`) && id !== undefined) {
          const isExcused = aways.some(({ to }) => to > Date.now() - NEAR_MS)
          ;(isExcused ? unsure : forgotten).add(messageId)
        }
        accepted.add(`${source} ${messageId}`)
        return messageId
      } catch {
        return undefined
      }
    }
    const startMover = () => {
      const to = of(NAMES)
      const shares = SOURCES.filter(() => below(3) === 0).map(shareOf)
      // Half of the moves are killed at one of their first steps.
      const step = below(2) * (1 + below(16))
      mover = run(MOVER, JSON.stringify(shares.map((share) => [share, to])), String(step))
    }

    /** A server crashes. All sources of the others go on, and their messages arrive before it is back. */
    const crash = async () => {
      if (mover) await kill(mover)
      // What the mover has sent may still be carried out.
      await pause(300)
      const { shares } = await all.directory()
      const number = below(NAMES.length)
      const others = SOURCES.filter((source) => {
        const place = shares[shareOf(source)]
        const isMoving = place?.next !== null || place.former.some((one) => one.isMoving)
        return place?.server !== number && !isMoving
      })
      const away = { from: Date.now(), to: Infinity }
      aways.push(away)
      await servers[number]?.stop('immediate')
      const sent = await Promise.all(others.flatMap((source) => [put(source), put(source)]))
      expect(sent, `${why}: a source of another server was refused`).not.toContain(undefined)
      for (const source of SOURCES.filter((one) => !others.includes(one))) await put(source)
      await expect
        .poll(() => sent.filter((one) => !sendings.has(one as string)), {
          message: `${why}: messages wait for ${NAMES[number]}, which does not have them`,
        })
        .toEqual([])
      await servers[number]?.start()
      away.to = Date.now()
      // A process looks once a second whether the server is back.
      await expect.poll(() => all.list().every(({ error }) => error === undefined)).toBe(true)
    }

    const act = async () => {
      const choice = below(10)
      if (choice === 0) await crash()
      else if (choice === 1) {
        await kill(of([...workers]))
        await startWorker()
      } else if (choice <= 3) {
        if (mover && below(2) === 0) await kill(mover)
        if (!mover || !children.has(mover)) startMover()
      } else if (choice === 4) {
        const known = [...accepted]
        for (let i = 0; i < 5 && known.length > 0; i++) {
          const [source = '', messageId = ''] = of(known).split(' ')
          await put(source, messageId)
        }
      } else for (let i = 0; i < 10; i++) await put(of(SOURCES))
    }

    try {
      for (let i = 0; i < 3; i++) await startWorker()
      for (let i = 0; i < ACTS; i++) {
        await act()
        await pause(below(300))
      }
      if (mover) await kill(mover)
      // The leases of the processes that were killed run out, and those of the others with them.
      off += LEASE_MS
      jumpedAt = Date.now()
      for (const child of children) child.send({ off })
      const last = run(MOVER, '[]', '0')
      const [said] = (await once(last, 'message')) as unknown[]
      expect(said, `${why}: the last move`).toHaveProperty('steps')
      const waiting = async () =>
        (await store.stats()).reduce(
          (sum, { fresh, backlog, bulk, leased }) => sum + fresh + backlog + bulk + leased,
          0,
        )
      await expect.poll(waiting, { timeout: 60_000, message: `${why}: messages wait` }).toBe(0)
      const { shares } = await all.directory()
      expect(
        shares.filter(({ next, former }) => next !== null || former.some((one) => one.isMoving)),
      ).toEqual([])
      // They say what they have done before they end.
      await Promise.all(
        Array.from(workers, async (worker) => {
          worker.send({ isOver: true })
          await once(worker, 'disconnect')
        }),
      )
    } finally {
      await Promise.all([...children].map(end))
      await store.close()
    }

    const names = [...accepted].map((one) => one.split(' ')[1] ?? '')
    // A process that was killed may have stored the result without having said so.
    const isSent = (name: string) =>
      sendings
        .get(name)
        ?.some(({ doneAt, worker, isToRepeat }) => doneAt ?? (killed.has(worker) && !isToRepeat))
    const lost = names.filter((name) => !isSent(name) && !unsure.has(name))
    expect(
      lost.map((name) => [name, sendings.get(name)?.map(({ at, doneAt }) => [at, doneAt])]),
      `${why}: lost`,
    ).toEqual([])
    const isExplained = ({ at, worker, doneAt, isToRepeat }: Sending, next: Sending) => {
      const killedAt = killed.get(worker)
      const end = doneAt ?? Infinity
      return (
        isToRepeat === true ||
        (killedAt !== undefined && killedAt <= end + NEAR_MS) ||
        (at <= jumpedAt + NEAR_MS && jumpedAt <= Math.min(end + NEAR_MS, next.at)) ||
        aways.some(({ from, to }) => from <= end + NEAR_MS && to >= at - NEAR_MS)
      )
    }
    expect([...forgotten], `${why}: stored again`).toEqual([])
    const repeated = [...sendings].filter(
      ([name, all]) =>
        !unsure.has(name) &&
        !all.slice(0, -1).every((one, i) => isExplained(one, all[i + 1] as Sending)),
    )
    expect(
      repeated.map(([name, all]) => [name, all.map(({ at, doneAt }) => [at, doneAt])]),
      `${why}: sent again without a reason`,
    ).toEqual([])
    expect(names.length, why).toBeGreaterThan(50)
  },
)
