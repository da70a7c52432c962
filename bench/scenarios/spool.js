// What the spool costs: the same client with it and without, in turns within one process, and an outage that
// the disk holds.
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { faultsOf } from '../decode.js'
import { buildEvent } from '../event.js'
import { heldBytes, median, percentile, startCpu, turn } from '../measure.js'
import { CAP_MS, finish, produce } from '../produce.js'

const CALLS_A_TURN = 20
const ROUNDS = 4
/** hookline's default `maxQueueBytes`. */
const CAP_BYTES = 64 * 1024 * 1024

/** Calls one by one, and all of them delivered. */
async function deliver(subject, { from, count }) {
  const callsUs = new Float64Array(count)
  const timed = {
    ...subject,
    track(event) {
      const callStart = performance.now()
      subject.track(event)
      callsUs[event.properties.seq - from] = (performance.now() - callStart) * 1000
    },
  }
  const start = performance.now()
  const readCpu = startCpu()
  await produce(timed, { from, count })
  await finish(subject.flush(), start + CAP_MS)
  return {
    p50Us: percentile(callsUs, 0.5),
    cpuUs: readCpu() / count,
    rate: (count * 1000) / (performance.now() - start),
  }
}

export default {
  name: 'spool',
  title: 'The spool: its cost, and an outage on disk',
  runs: 3,
  subjects: ['hookline'],
  execArgv: ['--expose-gc'],
  size: { events: 50_000, outage: 500_000 },
  quickSize: { events: 20_000, outage: 100_000 },
  columns: [
    { head: 'call p50 µs', value: 'p50Us' },
    { head: 'spooled', value: 'spooledP50Us' },
    { head: 'CPU µs/event', value: 'cpuUs' },
    { head: 'spooled', value: 'spooledCpuUs' },
    { head: 'events/s', value: 'rate' },
    { head: 'spooled', value: 'spooledRate' },
    { head: 'held in outage MB', value: 'heldMb' },
    { head: 'call p50 µs in outage', value: 'outageP50Us' },
    { head: 'backlog out s', value: 'backlogS' },
    { head: 'made', value: 'made' },
    { head: 'arrived', value: 'arrived' },
  ],
  targets: [
    { what: 'p50 of a call, more with the spool, µs', value: 'addedUs', atMost: 8 },
    // One core is what limits the rate: with this, it is at least 70 % of that without.
    { what: 'CPU per event delivered, x that without', value: 'cpuRatio', atMost: 1 / 0.7 },
    { what: 'memory held in the outage, x maxQueueBytes', value: 'heldOfCap', atMost: 1 },
  ],

  async measure({ create, size, ask }) {
    const directory = await mkdtemp(join(tmpdir(), 'hookline-bench-spool-'))
    try {
      const plain = await create()
      const spooled = await create({ spool: { directory } })
      const figures = { plain: [], spooled: [] }
      let made = 0
      for (let round = -1; round < ROUNDS; round += 1) {
        for (const [name, subject] of Object.entries({ plain, spooled })) {
          const figure = await deliver(subject, { from: made, count: size.events })
          made += size.events
          if (round >= 0) figures[name].push(figure) // the first round is the warm-up
        }
      }
      const of = (name, key) => median(figures[name].map((figure) => figure[key]))

      await ask('refuse')
      const held = await heldBytes()
      const callsUs = new Float64Array(size.outage)
      for (let call = 0; call < size.outage;) {
        for (const end = Math.min(call + CALLS_A_TURN, size.outage); call < end; call += 1) {
          const event = buildEvent(made + call)
          const callStart = performance.now()
          spooled.track(event)
          callsUs[call] = (performance.now() - callStart) * 1000
        }
        await turn()
      }
      const heldMb = ((await heldBytes()) - held - callsUs.byteLength) / 1024 / 1024
      made += size.outage

      await ask('up')
      const upAt = Date.now()
      await plain.close()
      const isClosed = await finish(spooled.close(), performance.now() + 2 * CAP_MS)
      const found = await ask('report', { expected: made })
      return {
        p50Us: of('plain', 'p50Us'),
        spooledP50Us: of('spooled', 'p50Us'),
        addedUs: of('spooled', 'p50Us') - of('plain', 'p50Us'),
        rate: of('plain', 'rate'),
        spooledRate: of('spooled', 'rate'),
        cpuUs: of('plain', 'cpuUs'),
        spooledCpuUs: of('spooled', 'cpuUs'),
        cpuRatio: of('spooled', 'cpuUs') / of('plain', 'cpuUs'),
        heldMb,
        heldOfCap: (heldMb * 1024 * 1024) / CAP_BYTES,
        outageP50Us: percentile(callsUs, 0.5),
        backlogS: (found.lastArrivalAt - upAt) / 1000,
        made,
        arrived: found.arrived,
        isCapped: !isClosed,
        faults: isClosed ? faultsOf(found, made) : [],
      }
    } finally {
      await rm(directory, { recursive: true, force: true })
    }
  },
}
