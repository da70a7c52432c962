// Proof 8: PostgreSQL fails over, and nothing that was answered 200 is lost.
import { mkdtemp, rm } from 'node:fs/promises'
import { mkdirSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { SECRET, settingsOf, startDestination, WRITE_KEY } from '../destination.js'
import { startCluster } from '../failover/cluster.js'
import { openAddress } from '../failover/forward.js'
import { findPrograms } from '../failover/programs.js'
import { startSink } from '../sink.js'

const PROCESSES = 2
const BATCH = 5
const EVERY_MS = 40
/** How long calls come before a primary dies, and after the cluster is whole again. */
const CALM_MS = 3_000
/** For so long nothing reaches the standby before the primary dies. Calls are not answered meanwhile. */
const CUT_MS = 1_500

/** Sends batches until it is stopped. What was answered 200 is accepted, and nothing else. */
function startLoad(urls) {
  const accepted = []
  const load = { accepted, refused: 0, answeredAt: 0 }
  let isOver = false
  let number = 0
  const post = async (lane) => {
    const url = urls[lane % urls.length]
    const ids = Array.from({ length: BATCH }, () => `failover-${number++}`)
    const batch = ids.map((messageId) => ({ type: 'track', userId: 'u', event: 'e', messageId }))
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
      await response.arrayBuffer()
      if (response.status !== 200) load.refused += 1
      else {
        accepted.push(...ids)
        load.answeredAt = performance.now()
      }
    } catch {
      load.refused += 1
    }
  }
  const lanes = Array.from({ length: 4 }, async (_, lane) => {
    for (; !isOver; await sleep(EVERY_MS)) await post(lane)
  })
  load.stop = async () => {
    isOver = true
    await Promise.all(lanes)
  }
  return load
}

async function nextAnswer(load) {
  const from = performance.now()
  while (load.answeredAt < from) await sleep(50)
}

export default {
  number: 8,
  title: 'PostgreSQL fails over',
  what: `Two destinations share a PostgreSQL cluster of two nodes under Patroni, in which each commit waits for the standby, through an address that follows the primary. Under load the endpoint fails, the link to the standby is cut, and the primary is killed with all of its processes a moment later, as a machine that loses its power; once the cluster is whole again, the new primary is frozen until the other node has taken over, and then wakes. Green: everything that was answered 200 arrives, with a right signature, and the destinations go on by themselves.`,
  async run({ isQuick, env, progress, drainMs = 60_000 }) {
    const programs = findPrograms()
    if (programs.missing) return { skipped: `there is no ${programs.missing}` }
    const root = await mkdtemp(join(tmpdir(), 'hookline-proof-failover-'))
    const idsIn = (_, headers) => [headers['x-message-id']]
    const sink = await startSink({ idsIn, secret: SECRET })
    const cluster = await startCluster(root, programs)
    const ends = [cluster.stop]
    try {
      await cluster.whole('at the start')
      const address = await openAddress(cluster)
      ends.unshift(() => address.close())
      const store = `postgres://postgres:proof@127.0.0.1:${address.port}/postgres`
      const settings = { ...settingsOf('', { crm: `${sink.url}/crm` }), store }
      const destinations = []
      for (let i = 0; i < PROCESSES; i += 1) {
        const folder = join(root, `destination-${i}`)
        mkdirSync(folder)
        const running = await startDestination({ folder, settings, env })
        destinations.push(running)
        ends.unshift(running.kill)
      }
      const load = startLoad(destinations.map(({ url }) => url))
      ends.unshift(load.stop)

      const rows = []
      for (const way of isQuick ? ['killed'] : ['killed', 'frozen']) {
        await sleep(CALM_MS)
        const { primary, standby } = await cluster.whole(`before it is ${way}`)
        progress(`the primary is ${way}`)
        const before = load.accepted.length
        // What is accepted now is nowhere but in the store.
        sink.meet = () => ({ status: 503 })
        primary.link.cut()
        await sleep(CUT_MS)
        if (way === 'killed') cluster.kill(primary)
        else cluster.freeze(primary)
        primary.link.mend()
        const killedAt = performance.now()
        await cluster.primaryIs(standby, true)
        await nextAnswer(load)
        const seconds = (performance.now() - killedAt) / 1_000
        sink.meet = () => 'ok'
        if (way === 'killed') cluster.start(primary)
        else cluster.wake(primary)
        // It must have seen that it is the primary no longer: otherwise its calls would have gone to both.
        await cluster.primaryIs(primary, false)
        if ((await cluster.isPrimary(standby)) !== true)
          throw new Error('The same node is the primary again.')
        rows.push([way, before, Number(seconds.toFixed(1))])
      }
      await sleep(CALM_MS)
      await load.stop()
      progress('what waits is delivered')
      const { accepted } = load
      const missing = () => accepted.filter((id) => !sink.arrivals.has(id))
      const late = performance.now() + drainMs
      while (missing().length > 0 && performance.now() < late) await sleep(200)
      const lost = missing()
      const again = accepted.filter((id) => (sink.arrivals.get(id)?.length ?? 0) > 1).length
      const faults = [
        ...(lost.length > 0
          ? [`${lost.length} of ${accepted.length} lost, the first ${lost[0]}`]
          : []),
        ...(sink.counts.forged > 0 ? [`${sink.counts.forged} wrong signatures`] : []),
        ...(accepted.length === 0 ? ['nothing was accepted'] : []),
      ]
      const gaps = rows.map(([way, , seconds]) => `${way}: ${seconds} s`).join(', ')
      return {
        faults,
        summary: `${rows.length} failovers, without an answer for (${gaps}); ${accepted.length} accepted: ${lost.length} lost, ${again} duplicated; ${load.refused} requests not accepted meanwhile`,
        head: ['the primary is', 'accepted before', 'seconds until the next 200'],
        rows,
      }
    } finally {
      for (const end of ends) await end()
      await sink.shut()
      await rm(root, { recursive: true, force: true })
    }
  },
}
