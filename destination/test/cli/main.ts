// The command line, with a small server in place of the destination: what it does is told on the standard error.
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { addListen } from '../../src/cli/listen.js'
import { run } from '../../src/cli/run.js'
import { addSchedule } from '../../src/cli/schedule.js'
import { addSend } from '../../src/cli/send.js'
import { addServe, type RunningDestination, type StartDestination } from '../../src/cli/serve.js'

const PLAN = [
  { attempt: 1, earliestMs: 0, latestMs: 0 },
  { attempt: 2, earliestMs: 2_000, latestMs: 2_400 },
  { attempt: 3, earliestMs: 67_000, latestMs: 80_400 },
  { attempt: 4, earliestMs: 14_399_000, latestMs: 14_400_000 },
]

/** Answers each call with the key that came and the names of the destinations. */
const startDestination: StartDestination = async (settings, log): Promise<RunningDestination> => {
  let { destinations } = settings
  if (settings.store.includes('locked')) {
    throw Object.assign(new Error('the store is in use by another process.'), { code: 'locked' })
  }
  const server = createServer((_, response) => {
    response.end(JSON.stringify(destinations.map(({ name }) => name)))
  })
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject).listen(settings.listen, resolve)
  })
  log.debug({}, 'the stand-in is up')
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}`,
    reload: (next) => {
      if (next.store !== settings.store) return Promise.reject(new Error('store can not change.'))
      destinations = next.destinations
      return Promise.resolve()
    },
    close: () => {
      if (destinations.some(({ name }) => name === 'stuck')) return new Promise(() => undefined)
      server.closeAllConnections()
      return new Promise((resolve) => {
        server.close(() => {
          resolve()
        })
      })
    },
  }
}

process.exit(
  await run(process.argv.slice(2), [
    addServe(startDestination),
    addListen,
    addSend,
    addSchedule(() => PLAN),
  ]),
)
