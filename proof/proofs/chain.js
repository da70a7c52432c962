// Proof 3: from the call to the customers' endpoints, with everything in between being killed, failing or full.
import { execFileSync } from 'node:child_process'
import { mkdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { atEnd } from '../cleanup.js'
import { SECRET, settingsOf, startDestination, WRITE_KEY } from '../destination.js'
import { startSink } from '../sink.js'
import { distOf, drain, missing, startWriter } from '../writers.js'

const MB = 1024 * 1024
const DISK_MB = 48
const MAX_BALLAST = DISK_MB * MB
const RATE = 150
const HOOKS = ['/a', '/b']
/** Most attempts succeed; the others fail in every way. A silent one takes the destination its 5 s. */
const MOODS = [
  ...Array.from({ length: 14 }, () => 'ok'),
  ...[
    { status: 500 },
    { status: 429 },
    'reset before',
    'reset in',
    'reset after',
    'stored, reset',
    'stored, cut reply',
  ],
  ...['garbage', 'silence', { lateMs: 300 }],
]
/** An answer is on the destination's own disk by then. One that died before may send again what it was answered. */
const SETTLED_MS = 1_000

/** The disk is full during a third of the run. */
const RESTART_MS = 40_000

const random = (below) => Math.floor(Math.random() * below)

/** A small disk of its own for the store, so that it can be filled; undefined without the right to have one. */
function mountDisk(path) {
  mkdirSync(path)
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${DISK_MB}m`, 'tmpfs', path], {
      stdio: 'ignore',
    })
  } catch {
    return undefined
  }
  const ballast = join(path, 'ballast')
  const unmount = () => execFileSync('umount', ['-l', path])
  const forget = atEnd(unmount)
  return {
    /** To the last byte, and never more than the disk has: should it be gone, the folder is on another one. */
    fill() {
      const left = () => MAX_BALLAST - (statSync(ballast, { throwIfNoEntry: false })?.size ?? 0)
      for (let piece = MB; piece >= 4_096; piece /= 4) {
        try {
          while (left() >= piece) writeFileSync(ballast, Buffer.alloc(piece), { flag: 'a' })
        } catch {
          // Full, for pieces of this size.
        }
      }
    },
    free: () => rmSync(ballast, { force: true }),
    unmount() {
      forget()
      unmount()
    },
  }
}

/** A client without a library: what it was answered 200 for is accepted, and nothing else. */
async function post(url, ids) {
  const batch = ids.map((messageId) => ({
    type: 'identify',
    userId: 'ü€𝄞',
    messageId,
    traits: { plan: 'é "x"' },
  }))
  try {
    const response = await fetch(`${url}/v1/batch`, {
      method: 'POST',
      headers: {
        authorization: `Basic ${btoa(`${WRITE_KEY}:`)}`,
        'content-type': 'application/json',
      },
      body: JSON.stringify({ batch }),
      signal: AbortSignal.timeout(5_000),
    })
    return response.status === 200 ? ids : []
  } catch {
    return []
  }
}

export default {
  number: 3,
  title: 'SDK, destination, endpoints, with everything killed',
  what: `Two processes with a spool, and a plain HTTP client, send to a destination on SQLite, which forwards to two endpoints. Meanwhile the processes and the destination are killed at random instants and started again, a part of the attempts fails in ten ways, and the disk of the store is filled and freed. Then all is left to run until nothing waits. Green: every call that returned, and every one that was answered 200, arrives at both endpoints; no signature is wrong; nothing is sent again that was answered a second before the destination died, but while its disk was full.`,
  async run({ isQuick, env, progress, drainMs = 120_000 }) {
    const root = await mkdtemp(join(tmpdir(), 'hookline-proof-chain-'))
    const data = join(root, 'data')
    const disk = mountDisk(data)
    const idsIn = (_, headers, path) => [`${path} ${headers['x-message-id']}`]
    const sink = await startSink({ idsIn, secret: SECRET })
    let isCalm = false
    const met = new WeakMap()
    sink.meet = ({ socket, body }) => {
      if (isCalm) return 'ok'
      // Called twice for each request, before and after its body is read. Both calls must give the same answer.
      const fate = met.get(socket) ?? MOODS[random(MOODS.length)]
      if (body) met.delete(socket)
      else met.set(socket, fate)
      return fate
    }
    const endpoints = Object.fromEntries(HOOKS.map((path) => [path.slice(1), `${sink.url}${path}`]))
    const store = join(data, 's.db')
    let destination = await startDestination({
      folder: root,
      settings: settingsOf(store, endpoints),
      env,
    })
    const { url } = destination
    const settings = settingsOf(store, endpoints, Number(new URL(url).port))
    const dist = distOf(env)
    const directory = join(root, 'spool')
    const writers = []
    const answered = []
    const kills = []
    const full = []
    const endAt = performance.now() + (isQuick ? 10_000 : 45_000)
    let isBroken = false
    const isOver = () => isBroken || performance.now() > endAt

    const lives = async (lane) => {
      while (!isOver()) {
        const name = `w${lane}-${writers.length}`
        const writer = startWriter({
          dist,
          name,
          directory,
          endpoint: url,
          writeKey: WRITE_KEY,
          rate: RATE,
        })
        writers.push(writer)
        await writer.kill(1 + random(isQuick ? 200 : 500))
      }
    }
    const posts = async () => {
      for (let number = 0; !isOver(); number += 1) {
        answered.push(
          ...(await post(
            url,
            Array.from({ length: 5 }, (_, i) => `post.${number}.${i}`),
          )),
        )
        await sleep(20)
      }
    }
    // As a supervisor does it: a destination that ends because its disk is full is started again, until it runs.
    const restart = async () => {
      const late = performance.now() + RESTART_MS
      for (;;) {
        try {
          return await startDestination({ folder: root, settings, env })
        } catch (error) {
          if (performance.now() > late || isBroken) throw error
          await sleep(200)
        }
      }
    }
    const dies = async () => {
      while (!isOver()) {
        await sleep(300 + random(2_500))
        const kill = { from: Date.now(), to: Infinity }
        kills.push(kill)
        await destination.kill()
        destination = await restart()
        kill.to = Date.now() // what it had sent may be read at the other end after its death
        progress(`destination killed ${kills.length} times, processes ${writers.length}`)
      }
    }
    const fills = async () => {
      if (!disk) return
      const third = (endAt - performance.now()) / 3
      await sleep(third)
      const from = Date.now()
      full.push({ from, to: Infinity })
      while (!isBroken && performance.now() < endAt - third) {
        disk.fill()
        await sleep(20)
      }
      disk.free()
      full[0].to = Date.now()
    }
    try {
      // One that fails ends the others, before what they work on is removed.
      const ends = [lives(1), lives(2), posts(), dies(), fills()]
      const failing = ends.map((end) => end.catch(() => (isBroken = true)))
      await Promise.all(failing)
      await Promise.all(ends)
      isCalm = true
      await drain({ dist, directory, endpoint: url, writeKey: WRITE_KEY, timeout: drainMs })
      const has = (id) => HOOKS.every((path) => sink.arrivals.has(`${path} ${id}`))
      const left = () => [...missing(writers, has), ...answered.filter((id) => !has(id))]
      const late = performance.now() + drainMs
      while (left().length > 0 && performance.now() < late) await sleep(200)
      await sleep(SETTLED_MS) // duplicates may still arrive
      await destination.stop()

      const lost = left()
      const again = needless(sink, kills, full)
      const returned = writers.reduce((sum, one) => sum + one.returned, 0)
      const { requests, forged } = sink.counts
      return {
        faults: [
          lost.length > 0 &&
            `${lost.length} of ${returned + answered.length} lost, the first ${lost[0]}`,
          forged > 0 && `${forged} wrong signatures`,
          again > 0 && `${again} came again, though done with`,
          answered.length === 0 && 'no call of the plain client was accepted',
        ].filter(Boolean),
        summary: `${kills.length} kills of the destination, ${writers.length} of processes${disk ? ', a full disk' : ' (no root: the full disk is left out)'}; ${returned + answered.length} accepted: ${lost.length} lost, ${sink.duplicated()} duplicated that were on the way, ${again} others, ${forged} wrong signatures`,
        head: ['accepted', 'by', 'lost', 'requests to the endpoints', 'wrong signatures'],
        rows: [
          [
            returned,
            'calls of processes with a spool',
            missing(writers, has).length,
            requests,
            forged,
          ],
          [
            answered.length,
            '200s to a plain client',
            answered.filter((id) => !has(id)).length,
            '',
            '',
          ],
        ],
      }
    } finally {
      await destination.kill()
      await sink.shut()
      disk?.unmount()
      await rm(root, { recursive: true, force: true })
    }
  },
}

/**
 * Messages that arrived again although an earlier arrival was answered while the destination was running, and the
 * destination had time to store the answer.
 */
function needless(sink, kills, full) {
  const isNoted = ({ at, answeredAt }) =>
    answeredAt !== undefined &&
    !kills.some(({ from, to }) => at < to && answeredAt > from - SETTLED_MS) &&
    !full.some(({ from, to }) => answeredAt > from - SETTLED_MS && answeredAt < to + SETTLED_MS)
  let count = 0
  for (const arrivals of sink.arrivals.values()) if (arrivals.slice(0, -1).some(isNoted)) count += 1
  return count
}
