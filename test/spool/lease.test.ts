import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import fs, { existsSync, readFileSync, renameSync, utimesSync, writeFileSync } from 'node:fs'
import os from 'node:os'
import { basename, dirname, join } from 'node:path'
import fc from 'fast-check'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { log } from '../../src/log.js'
import { Lease } from '../../src/spool/lease.js'
import { isKnownDead } from '../../src/spool/owner.js'
import { Segment } from '../../src/spool/segment.js'
import {
  createClient,
  events,
  IN_TIME,
  listen,
  names,
  pass,
  scriptedFetch,
  trackMany,
  turns,
  useFakeClock,
} from '../collector.js'
import type { Analytics } from '../../src/index.js'
import { crash, files, fillUp, smallDisk, temporary } from './directory.js'

describe('an owner', () => {
  const owner = (fields: object) =>
    JSON.stringify({ machine: 'm', pid: 7, start: '100', ...fields })
  const runs = () => '100'
  const none = () => undefined
  test.each([
    ['whose process does not exist is dead', owner({}), none, true],
    ['whose pid belongs to a later process is dead', owner({ start: '99' }), runs, true],
    ['that left its folder to others is dead', 'free', runs, true],
    ['whose process runs may be alive', owner({}), runs, false],
    ['whose process runs, with an unknown start, may be alive', owner({}), () => '', false],
    ['that did not know its own start may be alive', owner({ start: '' }), runs, false],
    [
      'on another machine or in another container may be alive',
      owner({ machine: 'n' }),
      none,
      false,
    ],
    ['that did not know its machine may be alive', owner({ machine: '' }), none, false],
    ['that has not written its file yet may be alive', '', none, false],
    ['whose file is damaged may be alive', owner({}).slice(1), none, false],
    ['whose pid is no process id may be alive', owner({ pid: 0 }), none, false],
    ['whose file holds null may be alive', 'null', none, false],
  ])('%s', (_, text, startOf, isDead) => {
    expect(isKnownDead(text, 'm', startOf)).toBe(isDead)
  })

  test('may be alive if neither side knows its machine', () => {
    expect(isKnownDead(owner({ machine: '' }), '', none)).toBe(false)
  })
})

const ownerOf = ({ folder }: Lease) =>
  JSON.parse(readFileSync(join(folder, 'owner'), 'utf8')) as object

describe('a folder', () => {
  test('of this very process is not taken over, whoever asks', () => {
    const home = temporary()
    const [one, two] = [new Lease(home, log), new Lease(home, log)]
    expect([...one.claim()]).toEqual([])
    expect([...two.claim()]).toEqual([])
    expect([one.renew(), two.renew()]).toEqual(['held', 'held'])
  })

  test('of a process that ended is taken over by one of those who ask', () => {
    const home = temporary()
    const dead = new Lease(home, log)
    const { pid } = spawnSync(process.execPath, ['--version'])
    writeFileSync(join(dead.folder, 'owner'), JSON.stringify({ ...ownerOf(dead), pid }))
    const [one, two] = [new Lease(home, log), new Lease(home, log)]
    const claimed = join(one.folder, basename(dead.folder))
    expect([...one.claim()]).toEqual([{ folder: claimed, isDead: true }])
    expect([...two.claim()]).toEqual([])
  })

  test.runIf(process.platform === 'linux')(
    'of a process that was killed and not waited for is taken over',
    async () => {
      // The shell starts a process, and becomes one that never asks how it ended. Then it ends, and stays as a zombie.
      const shell = spawn('sh', ['-c', 'exec 3<&0; (read line <&3) & echo $!; exec sleep 60'])
      const [line] = (await once(shell.stdout, 'data')) as [Buffer]
      const pid = Number(line.toString())
      const read = (of: number, file: string) => readFileSync(`/proc/${of}/${file}`, 'utf8')
      while (read(shell.pid ?? 0, 'comm') !== 'sleep\n') await turns()
      shell.stdin.end('\n')
      while (!read(pid, 'stat').includes(') Z ')) await turns()
      const home = temporary()
      const dead = new Lease(home, log)
      writeFileSync(join(dead.folder, 'owner'), JSON.stringify({ ...ownerOf(dead), pid }))
      expect([...new Lease(home, log).claim()]).toHaveLength(1)
      shell.kill()
    },
  )

  test('that holds one taken over is taken over with it', () => {
    const home = temporary()
    const [first, second, third] = [
      new Lease(home, log),
      new Lease(home, log),
      new Lease(home, log),
    ]
    first.free()
    expect([...second.claim()]).toHaveLength(1)
    second.free()
    const [claimed] = [...third.claim()]
    expect(existsSync(join(claimed?.folder ?? '', basename(first.folder)))).toBe(true)
  })

  test('tells its holder that it was taken, or is gone', () => {
    const home = temporary()
    const [taken, gone] = [new Lease(home, log), new Lease(home, log)]
    writeFileSync(join(taken.folder, 'owner'), 'free')
    renameSync(gone.folder, join(temporary(), 'elsewhere'))
    expect([taken.renew(), gone.renew()]).toEqual(['taken', 'gone'])
  })

  test('is taken if that happens while it is made', () => {
    const home = temporary()
    const open = fs.openSync
    const spy = vi.spyOn(fs, 'openSync').mockImplementation((path, flags, mode) => {
      const fd = open(path, flags, mode)
      if (flags !== 'r+') return fd
      spy.mockRestore()
      writeFileSync(path, 'free')
      new Lease(home, log).claim().next()
      return fd
    })
    onTestFinished(() => {
      vi.restoreAllMocks()
    })
    expect(new Lease(home, log).renew()).toBe('taken')
  })

  test('stays held when the host name is not ASCII', () => {
    vi.spyOn(process, 'platform', 'get').mockReturnValue('darwin')
    vi.spyOn(os, 'hostname').mockReturnValue('büro-東京')
    onTestFinished(() => {
      vi.restoreAllMocks()
    })
    expect(new Lease(temporary(), log).renew()).toBe('held')
  })
})

/** Looks often enough to take a holder for dead that does not beat. */
const lookForHalfAMinute = (lease: Lease) =>
  Array.from({ length: 7 }, () => [...lease.claim()]).flat()

describe('a holder whose process lives', () => {
  test('is taken for dead after six looks without a beat, and is told so', () => {
    const home = temporary()
    const [quiet, watcher] = [new Lease(home, log), new Lease(home, log)]
    for (let look = 0; look < 6; look++) expect([...watcher.claim()]).toEqual([])
    const claimed = join(watcher.folder, basename(quiet.folder))
    expect([...watcher.claim()]).toEqual([{ folder: claimed, isDead: false }])
    expect(quiet.renew()).toBe('taken')
  })

  test('keeps its folder if it beats again before the last look', () => {
    const home = temporary()
    const [slow, watcher] = [new Lease(home, log), new Lease(home, log)]
    for (let look = 0; look < 6; look++) watcher.claim()
    utimesSync(join(slow.folder, 'owner'), 1, 1)
    expect([...watcher.claim()]).toEqual([])
    expect(slow.renew()).toBe('held')
  })

  test('keeps its folder if it beats while a watcher takes it', () => {
    const home = temporary()
    const [waking, watcher] = [new Lease(home, log), new Lease(home, log)]
    const states: string[] = []
    const rename = fs.renameSync
    vi.spyOn(fs, 'renameSync').mockImplementationOnce((from, to) => {
      states.push(waking.renew())
      rename(from, to)
    })
    onTestFinished(() => {
      vi.restoreAllMocks()
    })
    expect(lookForHalfAMinute(watcher)).toEqual([])
    expect([...states, waking.renew()]).toEqual(['held', 'held'])
  })

  test('gives up if a watcher is in the middle of taking its folder', () => {
    const home = temporary()
    const [waking, watcher] = [new Lease(home, log), new Lease(home, log)]
    let state: string | undefined
    const rename = fs.renameSync
    vi.spyOn(fs, 'renameSync').mockImplementationOnce((from, to) => {
      rename(from, to)
      state = waking.renew()
    })
    onTestFinished(() => {
      vi.restoreAllMocks()
    })
    expect(lookForHalfAMinute(watcher)).toHaveLength(1)
    expect(state).toBe('taken')
  })

  test('is told so if the first watcher died while it took the folder', () => {
    const home = temporary()
    const [quiet, watcher] = [new Lease(home, log), new Lease(home, log)]
    renameSync(join(quiet.folder, 'owner'), join(quiet.folder, 'taken'))
    expect(lookForHalfAMinute(watcher)).toHaveLength(1)
    expect(quiet.renew()).toBe('taken')
  })

  test('keeps its folder if the watcher has no file descriptors left', () => {
    const home = temporary()
    const [holder, watcher] = [new Lease(home, log), new Lease(home, log)]
    const open = vi.spyOn(fs, 'openSync').mockImplementation(() => {
      throw Object.assign(new Error('EMFILE: too many open files'), { code: 'EMFILE' })
    })
    expect(lookForHalfAMinute(watcher)).toEqual([])
    open.mockRestore()
    expect([...watcher.claim()]).toEqual([])
    expect(holder.renew()).toBe('held')
  })

  test('is not told that its folder is gone when the disk does not answer', () => {
    const lease = new Lease(temporary(), log)
    const stat = vi.spyOn(fs, 'statSync').mockImplementation(() => {
      throw Object.assign(new Error('EIO: i/o error'), { code: 'EIO' })
    })
    expect(() => lease.renew()).toThrow('EIO')
    stat.mockRestore()
    expect(lease.renew()).toBe('held')
  })

  test('does not rely on a beat that it was about to make when it was stopped', () => {
    let nowMs = 0
    vi.spyOn(performance, 'now').mockImplementation(() => nowMs)
    const lease = new Lease(temporary(), log)
    const beat = fs.futimesSync
    vi.spyOn(fs, 'futimesSync').mockImplementationOnce((...given) => {
      beat(...given)
      nowMs += 40_000
    })
    onTestFinished(() => {
      vi.restoreAllMocks()
    })
    lease.renew()
    expect(lease.isFresh).toBe(false)
  })
})

describe('processes that each live shorter than a takeover takes', () => {
  /** Watches as a process does that lives for so long, and gives what it took over. */
  function watchFor(home: string, livesMs: number): string[] {
    const lease = new Lease(home, log)
    const claims = [...lease.claim()]
    let leftMs = livesMs
    for (; leftMs >= 5_000; leftMs -= 5_000) {
      vi.advanceTimersByTime(5_000)
      claims.push(...lease.claim())
    }
    vi.advanceTimersByTime(leftMs)
    lease.free()
    return claims.map(({ folder }) => basename(folder))
  }

  const standing: [string, (folder: string) => void][] = [
    ['whose holder stands still', () => undefined],
    [
      'whose watcher died while it took it',
      (folder) => {
        renameSync(join(folder, 'owner'), join(folder, 'taken'))
      },
    ],
  ]
  test.each(
    standing.flatMap(([what, change]) =>
      [2_000, 8_000, 12_000].map((livesMs) => ({ what, change, livesMs })),
    ),
  )(
    'take over a folder $what once they have watched it for 30 s, $livesMs ms each',
    ({ change, livesMs }) => {
      useFakeClock()
      const home = temporary()
      const { folder } = new Lease(home, log)
      change(folder)
      let watchedMs = 0
      while (!watchFor(home, livesMs).includes(basename(folder))) {
        watchedMs += livesMs
        expect(watchedMs).toBeLessThan(60_000)
      }
      expect(watchedMs + livesMs).toBeGreaterThanOrEqual(30_000)
    },
  )

  test('take over no folder whose holder repeats a beat, because its clock was set back', () => {
    useFakeClock()
    const home = temporary()
    const holder = new Lease(home, log)
    vi.advanceTimersByTime(5_000)
    const first = Date.now()
    expect(holder.renew()).toBe('held')
    watchFor(home, 25_000)
    expect(holder.renew()).toBe('held')
    vi.advanceTimersByTime(5_000)
    vi.setSystemTime(first)
    expect(holder.renew()).toBe('held')
    expect(watchFor(home, 10_000)).not.toContain(basename(holder.folder))
  })

  test('add one look at most when they end, although they stood still for longer', () => {
    useFakeClock()
    const home = temporary()
    const { folder } = new Lease(home, log)
    const watcher = new Lease(home, log)
    expect([...watcher.claim()]).toEqual([])
    vi.advanceTimersByTime(29_000)
    watcher.free()
    expect(watchFor(home, 20_000)).not.toContain(basename(folder))
    expect(watchFor(home, 9_000)).toContain(basename(folder))
  })

  test.skipIf(process.platform === 'win32')(
    'write through no link where they write down what they watched',
    () => {
      useFakeClock()
      const home = temporary()
      const { folder } = new Lease(home, log)
      const other = join(temporary(), 'other')
      writeFileSync(other, 'as it was')
      fs.symlinkSync(other, join(folder, 'watched'))
      watchFor(home, 12_000)
      expect(readFileSync(other, 'utf8')).toBe('as it was')
      expect(fs.lstatSync(join(folder, 'watched')).isSymbolicLink()).toBe(false)
    },
  )

  const wait = fc.integer({ min: 1, max: 9_000 })
  const act = fc.oneof(
    fc.record({ what: fc.constant('start' as const), ms: wait }),
    fc.record({ what: fc.constant('end' as const), ms: wait }),
    fc.record({ what: fc.constant('stop' as const), ms: wait }),
    fc.record({ what: fc.constant('beat' as const), ms: wait }),
    fc.record({ what: fc.constant('set back' as const), ms: wait }),
  )

  test('never take over the folder of one that has beaten within 30 s, whatever their number and their clocks', () => {
    useFakeClock()
    let takeovers = 0
    fc.assert(
      fc.property(fc.array(act, { minLength: 20, maxLength: 60 }), (acts) => {
        const home = temporary()
        let holder = new Lease(home, log)
        let now = 0
        let beatAt = 0
        let watchers: { lease: Lease; nextLookAt: number }[] = []
        const look = (watcher: (typeof watchers)[number]) => {
          watcher.nextLookAt = now + 5_000
          if (watcher.lease.renew() !== 'held') {
            watchers = watchers.filter((each) => each !== watcher)
            return
          }
          for (const { folder } of watcher.lease.claim()) {
            if (basename(folder) !== basename(holder.folder)) continue
            takeovers++
            expect(now - beatAt).toBeGreaterThanOrEqual(30_000)
            expect(holder.renew()).toBe('taken')
            holder = new Lease(home, log)
            beatAt = now
          }
        }
        const start = () => {
          const watcher = { lease: new Lease(home, log), nextLookAt: 0 }
          watchers.push(watcher)
          look(watcher)
        }
        for (const { what, ms } of acts) {
          if (what === 'start') start()
          const one = watchers[ms % watchers.length]
          if (what === 'end' && one) {
            watchers = watchers.filter((each) => each !== one)
            one.lease.free()
          }
          if (what === 'stop' && one) one.nextLookAt += ms
          if (what === 'beat' && ms < 2_000) {
            expect(holder.renew()).toBe('held')
            beatAt = now
          }
          if (what === 'set back') vi.setSystemTime(Date.now() - (ms < 1_000 ? now - beatAt : ms))
          for (const until = now + ms; now < until;) {
            const next = Math.min(until, ...watchers.map(({ nextLookAt }) => nextLookAt))
            vi.advanceTimersByTime(Math.max(0, next - now))
            now = Math.max(now, next)
            for (const each of [...watchers]) if (each.nextLookAt <= now) look(each)
          }
        }
        for (const { lease } of watchers) lease.free()
      }),
      { numRuns: Number(process.env['RUNS'] ?? 40), seed: Number(process.env['SEED'] ?? 1) },
    )
    expect(takeovers).toBeGreaterThan(0)
  })
})

describe('a folder whose owner file was', () => {
  const harms: [string, (owner: string) => void][] = [
    ['removed', fs.rmSync],
    [
      'renamed',
      (owner) => {
        renameSync(owner, `${owner}.bak`)
      },
    ],
    [
      'emptied',
      (owner) => {
        writeFileSync(owner, '')
      },
    ],
    [
      'overwritten',
      (owner) => {
        writeFileSync(owner, 'x'.repeat(1_000))
      },
    ],
    [
      'replaced by an empty one',
      (owner) => {
        renameSync(owner, `${owner}.bak`)
        writeFileSync(owner, '')
      },
    ],
    [
      'replaced by a copy',
      (owner) => {
        fs.copyFileSync(owner, `${owner}.copy`)
        renameSync(`${owner}.copy`, owner)
      },
    ],
  ]

  /** A holder whose owner file is harmed, and a process that watches it. */
  function harmed(harm: (owner: string) => void) {
    const home = temporary()
    const [holder, watcher] = [new Lease(home, log), new Lease(home, log)]
    const owner = join(holder.folder, 'owner')
    const before = readFileSync(owner, 'utf8')
    harm(owner)
    return { holder, watcher, owner, before }
  }

  test.each(harms)('%s stays its holder’s, and the others see its beats', (_, harm) => {
    const { holder, watcher, owner, before } = harmed(harm)
    for (let look = 0; look < 20; look++) {
      expect(holder.renew()).toBe('held')
      utimesSync(owner, look, look) // so that each beat is a new one
      expect([...watcher.claim()]).toEqual([])
    }
    expect(readFileSync(owner, 'utf8')).toBe(before)
  })

  test.each(harms)('%s is taken over like another one once its holder stands still', (_, harm) => {
    const { holder, watcher } = harmed(harm)
    expect(holder.renew()).toBe('held')
    expect(lookForHalfAMinute(watcher)).toHaveLength(1)
    expect(holder.renew()).toBe('taken')
  })

  test.each([
    ['before a watcher leaves its trace is held', 1, 'held'],
    ['before that watcher makes a new one is taken', 2, 'taken'],
    ['after that is taken', 3, 'taken'],
  ])('removed and whose holder wakes up right %s', (_, at, state) => {
    const { holder, watcher } = harmed(fs.rmSync)
    const states: string[] = []
    const write = fs.writeFileSync
    let writes = 0
    const wakeAt = (place: number) => place === at && states.push(holder.renew())
    vi.spyOn(fs, 'writeFileSync').mockImplementation((...given) => {
      const isTrace = !String(given[0]).endsWith('/watched')
      if (isTrace) wakeAt(++writes)
      write(...given)
      if (isTrace && writes === 2) wakeAt(3)
    })
    onTestFinished(() => {
      vi.restoreAllMocks()
    })
    expect(lookForHalfAMinute(watcher)).toHaveLength(at === 1 ? 0 : 1)
    expect(states).toEqual([state])
  })

  test('emptied is its holder’s if that wakes up right before a watcher renames it', () => {
    const { holder, watcher } = harmed((owner) => {
      writeFileSync(owner, '')
      utimesSync(owner, 1, 1)
    })
    const states: string[] = []
    const rename = fs.renameSync
    vi.spyOn(fs, 'renameSync').mockImplementationOnce((from, to) => {
      states.push(holder.renew())
      rename(from, to)
    })
    onTestFinished(() => {
      vi.restoreAllMocks()
    })
    expect(lookForHalfAMinute(watcher)).toEqual([])
    expect([...states, holder.renew()]).toEqual(['held', 'held'])
  })
})

test('a folder whose maker died before it named an owner is taken over after six looks', () => {
  const home = temporary()
  const watcher = new Lease(home, log)
  fs.mkdirSync(join(home, 'unfinished'))
  expect(lookForHalfAMinute(watcher)).toHaveLength(1)
})

test.each(['theirs.txt', 'theirs/theirs.txt', 'reserve/theirs.txt'])(
  '%s, which the spool did not make, is kept, and not moved by each process that dies',
  async (path) => {
    useFakeClock()
    let directory = temporary()
    const net = scriptedFetch(503)
    const { failed, hooks } = listen()
    const start = () => createClient(net, { spool: { directory }, ...hooks })
    trackMany(start(), 10)
    const folder = dirname(files(directory, '.log')[0] ?? '')
    fs.rmSync(join(folder, 'reserve'))
    fs.mkdirSync(dirname(join(folder, path)), { recursive: true })
    writeFileSync(join(folder, path), 'theirs')
    const found: string[][] = []
    for (let life = 0; life < 3; life++) {
      directory = crash(directory)
      trackMany(start(), 10, 10 * life)
      await turns()
      found.push(files(directory, 'theirs.txt').map((each) => each.slice(directory.length)))
    }
    expect(found[0]?.[0]).toMatch(/\.foreign\/theirs\.txt$/)
    expect(found).toEqual([found[0], found[0], found[0]])
    expect(failed).toEqual([])
  },
)

test('a link in place of a file of messages is set aside, and what it leads to is not touched', async () => {
  const elsewhere = join(temporary(), 'elsewhere.txt')
  const text = 'of somebody else\n'.repeat(40)
  writeFileSync(elsewhere, text)
  let directory = temporary()
  const net = scriptedFetch(503)
  trackMany(createClient(net, { spool: { directory } }), 10)
  const folder = dirname(files(directory, '.log')[0] ?? '')
  fs.symlinkSync(elsewhere, join(folder, '0000000000.log'))
  directory = crash(directory)
  const { failed, hooks } = listen()
  const analytics = createClient(scriptedFetch(), { spool: { directory }, ...hooks })
  await turns()
  expect(await analytics.close()).toEqual({ delivered: 10, failed: 0 })
  expect(failed).toEqual([])
  expect(fs.readFileSync(elsewhere, 'utf8')).toBe(text)
})

function leaseWithReserve(home: string): Lease {
  const lease = new Lease(home, log)
  lease.keepReserve()
  return lease
}

const canStart = (home: string) => {
  try {
    return new Lease(home, log)
  } catch (error) {
    expect(error).toMatchObject({ code: 'ENOSPC' })
    return undefined
  }
}

describe('on a full disk', () => {
  test('the room for one more is used after a reboot, when nobody knows who is dead', ({
    skip,
  }) => {
    const disk = smallDisk('size=2m')
    if (!disk) return skip('no right to mount a file system: the full disk is left out')
    const home = join(disk, 'home')
    leaseWithReserve(home)
    fillUp(join(disk, 'ballast'))
    let started = 0
    while (canStart(home)) started++
    expect(started).toBeGreaterThanOrEqual(3)
    const before = new Date(Date.now() - 120_000)
    for (const path of files(home, 'owner')) utimesSync(path, before, before)
    expect(canStart(home)).toBeDefined()
  })

  test('without room for one more file, the reserve of one that closed is removed', ({ skip }) => {
    const disk = smallDisk('size=2m,nr_inodes=100')
    if (!disk) return skip('no right to mount a file system: the full disk is left out')
    const home = join(disk, 'home')
    for (const lease of Array.from({ length: 3 }, () => leaseWithReserve(home))) lease.free()
    const fillWithFiles = () => {
      for (let i = 0; ; i++) writeFileSync(join(disk, `file${i}`), '')
    }
    expect(fillWithFiles).toThrow('ENOSPC')
    expect(canStart(home)).toBeDefined()
  })

  test('the folder of another user costs nothing but its own reserve', ({ skip }) => {
    const disk = smallDisk('size=2m')
    if (!disk) return skip('no right to mount a file system: the full disk is left out')
    const home = join(disk, 'home')
    const [theirs] = [leaseWithReserve(home), leaseWithReserve(home)]
    fillUp(join(disk, 'ballast'))
    const open = fs.openSync
    const spy = vi.spyOn(fs, 'openSync').mockImplementation((path, ...rest) => {
      if (!String(path).startsWith(theirs.folder)) return open(path, ...rest)
      throw Object.assign(new Error('EACCES: permission denied'), { code: 'EACCES' })
    })
    expect(canStart(home)).toBeDefined()
    spy.mockRestore()
  })
})

test('a file that cannot be opened at one start is sent by the next one', async () => {
  useFakeClock()
  let directory = temporary()
  trackMany(createClient(scriptedFetch(503), { spool: { directory } }), 10)
  directory = crash(directory)
  const open = fs.openSync
  const spy = vi.spyOn(fs, 'openSync').mockImplementation((path, ...rest) => {
    if (!String(path).endsWith('.log')) return open(path, ...rest)
    throw Object.assign(new Error('ETIMEDOUT: connection timed out'), { code: 'ETIMEDOUT' })
  })
  const { failed, hooks } = listen()
  await Promise.all([
    createClient(scriptedFetch(), { spool: { directory }, ...hooks }).close(),
    pass(60_000),
  ])
  spy.mockRestore()
  expect(failed.map(({ error }) => error.code)).toEqual(['spool_failed'])
  const net = scriptedFetch()
  createClient(net, { spool: { directory } })
  await pass(60_000)
  expect(events(...net.arrivals)).toEqual(names(0, 10))
})

const ELSEWHERE = { machine: 'another host', pid: process.pid, start: '1' }

/** Messages e0 to e9, left by a process of which nothing can be known. */
async function leftElsewhere(): Promise<{ directory: string; owner: string }> {
  const directory = temporary()
  const net = scriptedFetch()
  net.otherwise('hang')
  trackMany(createClient(net, { spool: { directory } }), 10)
  await turns()
  const image = crash(directory, ELSEWHERE)
  return { directory: image, owner: files(image, 'owner')[0] ?? '' }
}

describe('a client in a thread that lives', () => {
  test('is taken over once it does not beat, as when its thread was terminated', async () => {
    useFakeClock()
    const directory = temporary()
    const dead = createClient(scriptedFetch('hang'), { spool: { directory } })
    trackMany(dead, 10)
    await turns()
    vi.clearAllTimers()
    const net = scriptedFetch()
    createClient(net, { spool: { directory } })
    await pass(29_000)
    expect(net.arrivals).toEqual([])
    await pass(6_000)
    expect(events(...net.arrivals)).toEqual(names(0, 10))
  })

  test('keeps its messages when the thread was blocked for minutes', async () => {
    useFakeClock()
    const directory = temporary()
    const { failed, hooks } = listen()
    const nets = [scriptedFetch(), scriptedFetch()]
    const clients = nets.map((net) => createClient(net, { spool: { directory }, ...hooks }))
    for (let block = 0; block < 10; block++) {
      for (const [i, client] of clients.entries()) trackMany(client, 3, 100 * i + 3 * block)
      const now = performance.now() + 120_000
      // No timer fires while a thread is blocked. Afterwards all that are due fire once.
      vi.setSystemTime(Date.now() + 120_000)
      vi.spyOn(performance, 'now').mockReturnValue(now)
      await pass(5_000)
      vi.restoreAllMocks()
    }
    expect(failed).toEqual([])
    expect(nets.map((net) => events(...net.arrivals))).toEqual([names(0, 30), names(100, 130)])
  })
})

describe('what a process left of which nothing can be known', () => {
  test('is taken over once it has not stirred for 30 s', async () => {
    useFakeClock()
    const { directory } = await leftElsewhere()
    const net = scriptedFetch()
    createClient(net, { spool: { directory } })
    await pass(29_000)
    expect(net.arrivals).toEqual([])
    await pass(6_000)
    expect(events(...net.arrivals)).toEqual(names(0, 10))
  })

  test('is sent even if the disk does not take the end of its file', async () => {
    useFakeClock()
    const { directory } = await leftElsewhere()
    const write = fs.writeSync as (...given: unknown[]) => number
    const END_AT = 12
    let refused = 0
    vi.spyOn(fs, 'writeSync').mockImplementation((...given: unknown[]) => {
      if (given[4] !== END_AT || refused++ > 0) return write(...given)
      throw Object.assign(new Error('EIO: i/o error'), { code: 'EIO' })
    })
    onTestFinished(() => {
      vi.restoreAllMocks()
    })
    const net = scriptedFetch()
    const { failed, hooks } = listen()
    createClient(net, { spool: { directory }, ...hooks })
    await pass(40_000)
    expect(refused).toBe(1)
    expect(events(...net.arrivals)).toEqual(names(0, 10))
    expect(failed).toEqual([])
  })

  test('stays its own while it stirs, however the clocks are set', async () => {
    useFakeClock()
    const { directory, owner } = await leftElsewhere()
    const net = scriptedFetch()
    createClient(net, { spool: { directory } })
    for (let beat = 1; beat <= 20; beat++) {
      utimesSync(owner, beat, beat) // by its own clock, it is 1970
      await pass(5_000)
      vi.setSystemTime(beat % 2 ? '2001-01-01' : '2099-01-01')
    }
    expect(net.arrivals).toEqual([])
    await pass(35_000)
    expect(events(...net.arrivals)).toEqual(names(0, 10))
  })
})

describe('a process that stood still', () => {
  /** Two clients; while the first stands still, the second takes over what it had. */
  async function standStill(reply: 503 | 'hang', before?: (stopped: Analytics) => void) {
    useFakeClock()
    const directory = temporary()
    const { failed, outcomes, hooks, as } = listen()
    const net = scriptedFetch(reply)
    const options = { spool: { directory }, maxQueueBytes: 10_000, ...IN_TIME }
    const stopped = createClient(net, { ...options, ...hooks })
    trackMany(stopped, 40, 0, as)
    await turns()
    before?.(stopped)
    const arrivedBefore = net.arrivals.length
    const [owner = ''] = files(directory, 'owner')
    // What a process does first that takes over: here, at once.
    writeFileSync(owner, 'free')
    const other = scriptedFetch()
    createClient(other, { spool: { directory } })
    await pass(100)
    return { stopped, net, arrivedBefore, failed, outcomes, as, other, directory }
  }

  test('sends nothing of what another has taken over, and says so', async () => {
    const { stopped, net, arrivedBefore, failed, outcomes, other } = await standStill('hang')
    await pass(60_000)
    expect(events(...other.arrivals)).toEqual(names(0, 40))
    expect(net.arrivals.slice(arrivedBefore)).toEqual([])
    expect(new Set(failed.map(({ error }) => error.code))).toEqual(new Set(['spool_taken']))
    expect(outcomes.map(({ error }) => error?.code)).toEqual(names(0, 40).map(() => 'spool_taken'))
    expect(stopped.stats()).toMatchObject({
      accepted: 40,
      dropped: 40,
      pending: 0,
      pendingBytes: 0,
    })
  })

  test.each([503, 'hang'] as const)(
    'leaves nothing twice if it is closed as it wakes up (%s)',
    async (reply) => {
      const { stopped, other, outcomes, directory } = await standStill(reply)
      const closed = stopped.close({ timeout: 0 })
      await pass(1_000)
      await closed
      expect(events(...other.arrivals)).toEqual(names(0, 40))
      expect(outcomes).toHaveLength(40)
      expect(files(directory, 'owner')).toHaveLength(1)
    },
  )

  test('goes on in a folder of its own', async () => {
    const { stopped, net, arrivedBefore, other, directory } = await standStill('hang')
    vi.advanceTimersByTime(5_000) // until its next beat, and no turn of the event loop further
    trackMany(stopped, 20, 100)
    const spooled = files(directory, '.log')
      .map((path) => readFileSync(path, 'latin1'))
      .join()
    expect(spooled).toContain('"e119"')
    await pass(10_000)
    expect(events(...net.arrivals.slice(arrivedBefore))).toEqual(names(100, 120))
    expect(events(...other.arrivals)).toEqual(names(0, 40))
  })

  test('beats in that folder, so that nobody takes that one over', async () => {
    const { stopped, net, failed, other } = await standStill('hang')
    await pass(5_000) // its next beat is the first to notice
    net.script('hang')
    trackMany(stopped, 20, 100)
    await pass(60_000)
    expect(events(...other.arrivals)).toEqual(names(0, 40))
    expect(failed.flatMap(({ messages }) => messages)).toHaveLength(40)
    expect(stopped.stats()).toMatchObject({ dropped: 40, pending: 20 })
  })

  test('tries the disk again if that fails in its new folder', async () => {
    const { stopped, directory } = await standStill('hang')
    await pass(5_000)
    const write = vi.spyOn(fs, 'writeSync').mockImplementationOnce(() => {
      throw new Error('ENOSPC: no space left on device')
    })
    trackMany(stopped, 1, 100)
    write.mockRestore()
    await pass(5_000)
    trackMany(stopped, 1, 101)
    const spooled = files(directory, '.log').map((path) => readFileSync(path, 'latin1'))
    expect(spooled.some((text) => text.includes('"e101"'))).toBe(true)
  })

  test('keeps the messages that are in its memory only, and sends them itself', async () => {
    const { stopped, net, arrivedBefore, other } = await standStill('hang', (client) => {
      const write = vi.spyOn(fs, 'writeSync').mockImplementation(() => {
        throw new Error('ENOSPC: no space left on device')
      })
      trackMany(client, 10, 40)
      write.mockRestore()
    })
    await pass(60_000)
    expect(events(...other.arrivals)).toEqual(names(0, 40))
    expect(events(...net.arrivals.slice(arrivedBefore))).toEqual(names(40, 50))
    expect(stopped.stats()).toMatchObject({ delivered: 10, dropped: 40, pending: 0 })
  })

  test('in the middle of a call sends the message of that call itself', async () => {
    useFakeClock()
    const directory = temporary()
    const [net, other] = [scriptedFetch('hang'), scriptedFetch()]
    const { failed, hooks } = listen()
    const stopped = createClient(net, { spool: { directory }, ...hooks })
    trackMany(stopped, 20)
    await turns()
    const [owner = ''] = files(directory, 'owner')
    const write = fs.writeSync
    vi.spyOn(fs, 'writeSync').mockImplementationOnce((...given) => {
      writeFileSync(owner, 'free')
      createClient(other, { spool: { directory } })
      const now = performance.now()
      vi.spyOn(performance, 'now').mockImplementation(() => now + 40_000)
      return write(...given)
    })
    trackMany(stopped, 1, 20)
    vi.restoreAllMocks()
    await pass(60_000)
    expect(events(...other.arrivals)).toEqual(names(0, 20))
    expect(events(...net.arrivals.slice(1))).toEqual(['e20'])
    expect(failed.flatMap(({ messages }) => messages)).toHaveLength(20)
  })

  test.each([
    ['before its write sends the message of that call itself', false],
    ['after its write leaves the message of that call to the other', true],
  ])('right %s', async (_, isWritten) => {
    useFakeClock()
    const directory = temporary()
    const [net, other] = [scriptedFetch('hang'), scriptedFetch()]
    const { failed, outcomes, hooks, as } = listen()
    const stopped = createClient(net, { spool: { directory }, ...hooks })
    trackMany(stopped, 20, 0, as)
    await turns()
    const [file = ''] = files(directory, '.log')
    const watcher = new Lease(dirname(dirname(file)), log)
    const write = fs.writeSync
    vi.spyOn(fs, 'writeSync').mockImplementationOnce((...given) => {
      const written = isWritten ? write(...given) : 0
      const [claim] = Array.from({ length: 7 }, () => [...watcher.claim()]).flat()
      Segment.load(join(claim?.folder ?? '', basename(file))).segment.seal()
      const now = performance.now()
      vi.spyOn(performance, 'now').mockImplementation(() => now + 40_000)
      return written || write(...given)
    })
    trackMany(stopped, 1, 20, as)
    vi.restoreAllMocks()
    watcher.free()
    createClient(other, { spool: { directory } })
    await pass(60_000)
    expect(events(...other.arrivals)).toEqual(names(0, isWritten ? 21 : 20))
    expect(events(...net.arrivals.slice(1))).toEqual(isWritten ? [] : ['e20'])
    expect(new Set(failed.map(({ error }) => error.code))).toEqual(new Set(['spool_taken']))
    expect(outcomes.filter(({ error }) => error)).toHaveLength(isWritten ? 21 : 20)
    expect(stopped.stats()).toMatchObject({
      accepted: 21,
      dropped: isWritten ? 21 : 20,
      pending: 0,
    })
  })

  test('right after its write leaves the message to the process after one that died of its takeover', async () => {
    useFakeClock()
    const directory = temporary()
    const [net, other] = [scriptedFetch('hang'), scriptedFetch()]
    const stopped = createClient(net, { spool: { directory } })
    trackMany(stopped, 20)
    await turns()
    const [file = ''] = files(directory, '.log')
    const watcher = new Lease(dirname(dirname(file)), log)
    const write = fs.writeSync
    vi.spyOn(fs, 'writeSync').mockImplementationOnce((...given) => {
      const written = write(...given)
      expect(Array.from({ length: 7 }, () => [...watcher.claim()]).flat()).toHaveLength(1)
      watcher.free()
      createClient(other, { spool: { directory } })
      const now = performance.now()
      vi.spyOn(performance, 'now').mockImplementation(() => now + 40_000)
      return written
    })
    trackMany(stopped, 1, 20)
    vi.restoreAllMocks()
    await pass(60_000)
    expect(events(...other.arrivals)).toEqual(names(0, 21))
    expect(events(...net.arrivals.slice(1))).toEqual([])
  })

  test('while it took over from others adopts nothing, and reports no damage', async () => {
    useFakeClock()
    const directory = temporary()
    const dead = createClient(scriptedFetch('hang'), { spool: { directory } })
    trackMany(dead, 10)
    void dead.close({ timeout: 0 })
    await pass(0)
    const [net, other] = [scriptedFetch(), scriptedFetch()]
    const { failed, hooks } = listen()
    const rename = fs.renameSync
    const spy = vi.spyOn(fs, 'renameSync').mockImplementation((from, to) => {
      if (!String(from).endsWith('.log')) {
        rename(from, to)
        return
      }
      spy.mockRestore()
      for (const owner of files(directory, 'owner')) writeFileSync(owner, 'free')
      createClient(other, { spool: { directory } })
      const now = performance.now()
      vi.spyOn(performance, 'now').mockImplementation(() => now + 40_000)
      rename(from, to)
    })
    const stopped = createClient(net, { spool: { directory }, ...hooks })
    vi.restoreAllMocks()
    await pass(5_000)
    expect(failed).toEqual([])
    expect(net.arrivals).toEqual([])
    expect(stopped.stats().accepted).toBe(0)
    expect(events(...other.arrivals)).toEqual(names(0, 10))
  })

  test('while it made its folder makes another one at once', () => {
    const directory = temporary()
    const { failed, hooks } = listen()
    const open = fs.openSync
    const spy = vi.spyOn(fs, 'openSync').mockImplementation((path, flags, mode) => {
      if (flags !== 'r+') return open(path, flags, mode)
      spy.mockRestore()
      renameSync(dirname(String(path)), join(temporary(), 'taken'))
      return open(path, flags, mode)
    })
    trackMany(createClient(scriptedFetch('hang'), { spool: { directory }, ...hooks }), 1)
    expect(files(directory, '.log')).toHaveLength(1)
    expect(failed).toEqual([])
  })

  test('right before it makes a file makes that file in its new folder', async () => {
    useFakeClock()
    const directory = temporary()
    const net = scriptedFetch('hang')
    const { failed, hooks } = listen()
    const stopped = createClient(net, { spool: { directory }, ...hooks })
    await turns()
    const [owner = ''] = files(directory, 'owner')
    const open = fs.openSync
    vi.spyOn(fs, 'openSync').mockImplementationOnce((...given) => {
      writeFileSync(owner, 'free')
      createClient(scriptedFetch(), { spool: { directory } })
      const now = performance.now()
      vi.spyOn(performance, 'now').mockImplementation(() => now + 40_000)
      return open(...given)
    })
    trackMany(stopped, 5)
    vi.restoreAllMocks()
    expect(
      files(directory, '.log')
        .map((path) => readFileSync(path, 'latin1'))
        .join(),
    ).toContain('"e4"')
    await pass(100)
    expect(failed).toEqual([])
  })

  test('notices before it sends or records, even if its timers come last', async () => {
    const { stopped, net, arrivedBefore, outcomes, as } = await standStill(503)
    const now = performance.now()
    vi.spyOn(performance, 'now').mockImplementation(() => now + 40_000)
    trackMany(stopped, 1, 200, as)
    void stopped.close() // which ends the back-off
    await turns()
    expect(outcomes.filter(({ error }) => error?.code === 'spool_taken')).toHaveLength(40)
    // The one that was recorded meanwhile is this process's own to send.
    expect(events(...net.arrivals.slice(arrivedBefore))).toEqual(['e200'])
    expect(outcomes.find(({ name }) => name === 'e200')).toEqual({ name: 'e200', error: undefined })
    vi.restoreAllMocks()
  })
})
