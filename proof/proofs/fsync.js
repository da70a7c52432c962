// Proof 4: no 200 precedes its fsync. The power is cut in a model of the disk that has lost all that was not synced.
import { spawnSync } from 'node:child_process'
import { Agent, request } from 'node:http'
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { settingsOf, startDestination, WRITE_KEY } from '../destination.js'
import { startSink } from '../sink.js'
import { Disk, stepsIn, TRACED } from '../trace.js'

const POSTERS = 8
const RECOVERY_MS = 20_000
const AUTHORIZATION = `Basic ${Buffer.from(`${WRITE_KEY}:`).toString('base64')}`
const ID = /p\d+x\d+x/g

/** Posts one call after the other over one connection; gives its port, and the ids in the order of their answers. */
async function post(url, { poster, count }) {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  const answered = []
  let port
  for (let call = 0; call < count; call += 1) {
    const id = `p${poster}x${call}x`
    const body = JSON.stringify({
      batch: [{ type: 'track', userId: 'u', event: 'E', messageId: id }],
    })
    const status = await new Promise((resolve, reject) => {
      const headers = { authorization: AUTHORIZATION, 'content-type': 'application/json' }
      const sending = request(`${url}/v1/batch`, { agent, method: 'POST', headers }, (response) => {
        port = response.socket.localPort
        response.resume().on('end', () => resolve(response.statusCode))
      })
      sending.on('error', reject)
      sending.end(body)
    })
    if (status !== 200) throw new Error(`The destination answered ${status}.`)
    answered.push(id)
  }
  agent.destroy()
  return { port, answered }
}

const filesIn = (folder) =>
  new Map(
    readdirSync(folder)
      .filter((name) => /\.db(-wal)?$/.test(name))
      .map((name) => [join(folder, name), readFileSync(join(folder, name))]),
  )

/** Starts a destination on what a disk has after a power cut, and gives those of `ids` that it does not deliver. */
async function notDelivered(image, ids, { number, root, env, sink }) {
  const folder = join(root, `cut-${number}`)
  mkdirSync(folder)
  for (const [path, bytes] of image) writeFileSync(join(folder, basename(path)), bytes)
  sink.arrivals.clear()
  sink.meet = () => 'ok'
  const settings = settingsOf(join(folder, 's.db'), { crm: `${sink.url}/crm` })
  const destination = await startDestination({ folder, settings, env })
  const late = performance.now() + RECOVERY_MS
  const left = () => ids.filter((id) => !sink.arrivals.has(id))
  while (left().length > 0 && performance.now() < late) await sleep(50)
  await destination.kill()
  return left()
}

export default {
  number: 4,
  title: 'No answer before its fsync',
  what: 'The destination runs under `strace`, which sees every write, sync and answer in order. A model of the disk replays them and keeps only what was synced. Green: at the moment each 200 begins to be written, its call is among what was synced; and a destination that starts on the files as a power cut would leave them, at several of these moments, delivers every call that was answered until then. (That files once made keep their names is taken for granted.)',
  async run({ isQuick, env, progress }) {
    if (spawnSync('strace', ['-V']).status !== 0) return { skipped: 'strace is not installed' }
    const root = await mkdtemp(join(tmpdir(), 'hookline-proof-fsync-'))
    const sink = await startSink({
      idsIn: (_, headers) => [headers['x-message-id']],
      meet: () => 'silence',
    })
    try {
      const folder = join(root, 'run')
      mkdirSync(folder)
      const settings = settingsOf(join(folder, 's.db'), { crm: `${sink.url}/crm` })
      await (await startDestination({ folder, settings, env })).stop() // makes the store
      const disk = new Disk(filesIn(folder))

      const log = join(root, 'trace')
      const flags = ['-f', '-qq', '-yy', '-xx', '-s', '1000000', '-e', `trace=${TRACED}`, '-o', log]
      const destination = await startDestination({
        folder,
        settings,
        env,
        under: ['strace', ...flags],
      })
      const count = isQuick ? 25 : 150
      const posters = await Promise.all(
        Array.from({ length: POSTERS }, (_, poster) => post(destination.url, { poster, count })),
      )
      await destination.kill()
      sink.drop()
      const { answers, early, cuts } = replay(
        readFileSync(log, 'utf8'),
        disk,
        posters,
        isQuick ? 2 : 5,
      )
      progress(`${answers} answers, ${early.length} before their fsync`)

      const rows = []
      for (const [number, { image, ids }] of cuts.entries()) {
        const lost = await notDelivered(image, ids, { number, root, env, sink })
        rows.push([number + 1, ids.length, lost.length])
        progress(`power cut ${number + 1}: ${ids.length} answered, ${lost.length} lost`)
      }
      const lost = rows.reduce((sum, row) => sum + row[2], 0)
      return {
        faults: [
          answers !== POSTERS * count && `${answers} of ${POSTERS * count} answers seen`,
          early.length > 0 &&
            `${early.length} of ${answers} answers before their fsync, the first to ${early[0]}`,
          lost > 0 && `${lost} calls lost in power cuts`,
        ].filter(Boolean),
        summary: `${answers} answers: ${early.length} before their fsync; ${rows.length} power cuts: ${lost} lost`,
        head: ['power cut', 'calls answered 200 until then', 'lost'],
        rows,
      }
    } finally {
      await sink.shut()
      await rm(root, { recursive: true, force: true })
    }
  },
}

function replay(text, disk, posters, cutCount) {
  const waiting = new Map(posters.map(({ port, answered }) => [port, [...answered]]))
  const total = posters.reduce((sum, { answered }) => sum + answered.length, 0)
  const durable = new Set()
  const ids = []
  const early = []
  const cuts = []
  for (const step of stepsIn(text)) {
    if (step.kind !== 'answer') {
      disk.apply(step, (bytes) => {
        for (const id of bytes.toString('latin1').match(ID) ?? []) durable.add(id)
      })
      continue
    }
    const id = waiting.get(step.port)?.shift()
    if (!id) continue
    ids.push(id)
    if (!durable.has(id)) early.push(id)
    if (ids.length >= ((cuts.length + 1) * total) / cutCount)
      cuts.push({ image: disk.image(), ids: [...ids] })
  }
  return { answers: ids.length, early, cuts }
}
