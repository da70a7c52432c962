// Three processes of one PostgreSQL store. Settings change in one of them, while it or another one is killed or cut off.
import { setTimeout as wait } from 'node:timers/promises'
import { afterAll, expect, test } from 'vitest'
import type { DestinationDetails, ShownMessage } from '../../src/model/answers.js'
import { folderWith, start as startProcess, type Running } from '../cli/process.js'
import { ADMIN_TOKEN, endpoint, KEY, post, track } from '../run.js'
import { dice } from '../simulation/chance.js'
import { startProxy, type Proxy } from '../store/postgres/proxy.js'
import { startServer } from '../store/postgres/server.js'
import { ask, SETTINGS_KEY } from './api.js'

const seed = Number(process.env['SEED'] ?? Math.floor(Math.random() * 1e9))
const STEPS = process.env['SLOW'] ? 60 : 12

const POLL = { timeout: 60_000 }

const TROUBLES = ['none', 'the asked one is killed', 'the asked one is cut off'] as const
const OTHERS = ['another one is killed', 'another one is cut off'] as const

interface Served {
  url: string
  adminUrl: string
  process: Running
}

/** One of the processes, with a network of its own to the server. */
class Member {
  #served: Served | undefined

  constructor(
    readonly proxy: Proxy,
    readonly folder: string,
  ) {}

  get served(): Served {
    if (!this.#served) throw new Error('It is not running.')
    return this.#served
  }

  async run(): Promise<void> {
    if (this.#served) return
    const process = startProcess(['serve', '--no-pretty'], { folder: this.folder })
    const [, url = ''] = await process.printed(/"url":"(http[^"]+)".*"listening"/)
    this.#served = { process, url, adminUrl: url }
  }

  async kill(): Promise<void> {
    const { process } = this.served
    this.#served = undefined
    process.kill('SIGKILL')
    await process.ended
  }

  /** The URL to which it delivers. */
  async target(): Promise<string | undefined> {
    const { status, body } = await ask(this.served, 'GET', '/destination?name=hook')
    const { endpoints } = body as unknown as DestinationDetails
    return status === 200 ? endpoints[0]?.url : undefined
  }
}

const cleanUps: (() => unknown)[] = []
afterAll(async () => {
  for (const cleanUp of cleanUps.reverse()) await cleanUp()
})

test(
  `every process uses each change, and no call is lost, sent elsewhere or sent twice for it: SEED=${seed}`,
  { timeout: 900_000 },
  async () => {
    const { pick, between, chance } = dice(seed)
    const server = await startServer()
    cleanUps.push(() => server.dispose())
    const store = await server.database()
    const members = await Promise.all(
      Array.from({ length: 3 }, async () => {
        const proxy = await startProxy(server.port)
        cleanUps.push(() => proxy[Symbol.asyncDispose]())
        const own = store.replace(`:${server.port}/`, `:${proxy.port}/`)
        const settings = {
          ...{ listen: '127.0.0.1:0', adminToken: ADMIN_TOKEN, settingsKey: SETTINGS_KEY },
          ...{ store: `${own}?statement_timeout=1000`, allowNetworks: ['127.0.0.0/8'] },
        }
        const member = new Member(proxy, folderWith(settings))
        await member.run()
        cleanUps.push(() => member.kill())
        return member
      }),
    )
    const receiver = await endpoint()
    const urlOf = (version: number) => `${receiver.url}/${version}`
    const arrivals = (id: string) =>
      receiver.received.flatMap(({ headers, path }) =>
        headers['x-message-id'] === id ? [path] : [],
      )
    const put = (member: Member, version: number) =>
      ask(member.served, 'PUT', '/destinations/hook', {
        ...{ sources: ['app'], webhooks: [{ url: urlOf(version) }] },
      })

    // The server takes a moment to notice that a process is cut off, and until then keeps what it has locked: clients try again.
    const accepted = (member: Member, id: string, told: string) =>
      expect
        .poll(async () => (await post(member.served, [track(id)])).status, {
          ...POLL,
          message: told,
        })
        .toBe(200)

    const [first] = members
    if (!first) throw new Error('There is no process.')
    expect((await ask(first.served, 'PUT', '/sources/app', { writeKey: KEY })).status).toBe(201)
    expect((await put(first, 0)).status).toBe(201)
    /** The versions that may be in use, and the changes that may have been made. */
    let possible = [0]
    let [least, most] = [1, 1]
    const troubled: string[] = []
    const calm: [id: string, path: string][] = []

    const targets = () => Promise.all(members.map((member) => member.target()))
    await expect.poll(targets, POLL).toEqual(members.map(() => urlOf(0)))
    for (let step = 1; step <= STEPS; step++) {
      const asked = pick(members)
      const other = pick(members.filter((one) => one !== asked))
      const third = members.find((one) => one !== asked && one !== other) ?? asked
      const trouble = pick([...TROUBLES, ...OTHERS])
      const told = `SEED=${seed}, step ${step}: ${trouble}`
      const hit = OTHERS.some((one) => one === trouble) ? other : asked
      const answer = put(asked, step).then(
        ({ status }) => status,
        () => undefined, // the connection ended with the process
      )
      if (trouble !== 'none') {
        await wait(between(0, 40))
        if (trouble.endsWith('killed')) await hit.kill()
        else hit.proxy.silence()
      }
      const id = `during-${step}`
      await accepted(third, id, told)
      troubled.push(id)
      if (chance(0.5)) await wait(between(0, 2_000))
      hit.proxy.fix()
      await hit.run()
      const status = await answer
      expect(hit === asked ? [200, 503, undefined] : [200, 503], told).toContain(status)
      possible = status === 200 ? [step] : [...possible, step]
      most += 1
      if (status === 200) least += 1

      // Each of them follows, to the same version.
      await expect
        .poll(targets, POLL)
        .toSatisfy(([one, ...rest]: string[]) => rest.every((url) => url === one), told)
      const target = await asked.target()
      const version = possible.find((one) => urlOf(one) === target)
      expect(version, `${told}: ${target}`).toBeDefined()
      possible = [version ?? NaN]
      for (const [i, member] of members.entries()) {
        const id = `calm-${step}-${i}`
        await accepted(member, id, told)
        calm.push([id, new URL(target ?? '').pathname])
        const isDone = async () => {
          const { body } = await ask(member.served, 'GET', `/messages?messageId=${id}`)
          return (body as unknown as ShownMessage).deliveries.map(({ state }) => state)
        }
        await expect.poll(isDone, POLL).toEqual(['done'])
      }
    }

    // What a process had under way when it was killed or cut off is sent again once its lease is over.
    await expect
      .poll(() => troubled.filter((id) => arrivals(id).length === 0), { timeout: 120_000 })
      .toEqual([])
    for (const [id, path] of calm) expect(arrivals(id), `SEED=${seed}: ${id}`).toEqual([path])
    const audit = () => ask(first.served, 'GET', '/audit?kind=destination&name=hook&limit=1000')
    await expect.poll(async () => (await audit()).status, POLL).toBe(200) // a statement may take longer than its time
    const { entries } = (await audit()).body
    expect(entries.length, `SEED=${seed}`).toBeGreaterThanOrEqual(least)
    expect(entries.length, `SEED=${seed}`).toBeLessThanOrEqual(most)
  },
)
