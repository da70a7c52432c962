import { fork } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import type { Asked, EndpointState, Told } from './collector.js'
import type { CollectorBooks } from './compare.js'

export interface CollectorProcess {
  readonly endpoint: string
  readonly state: () => EndpointState
  readonly startOutageScript: () => void
  /** Stops it, and gives what it saw. */
  readonly close: () => Promise<CollectorBooks>
}

/** Starts the collector in a process of its own. Should that end early, so does the demo: with a stack. */
export async function startCollector(args: string[]): Promise<CollectorProcess> {
  const child = fork(fileURLToPath(new URL('collector.ts', import.meta.url)), args)
  const endedEarly = (code: number | null) => {
    throw new Error(`The collector ended before the demo did, with the exit code ${code}.`)
  }
  child.on('exit', endedEarly)

  let state: EndpointState = 'up'
  child.on('message', (told: Told) => {
    if ('state' in told) state = told.state
  })
  const hear = <Key extends string>(key: Key) =>
    new Promise<Extract<Told, Record<Key, unknown>>>((resolve) => {
      child.on('message', (told: Told) => {
        if (key in told) resolve(told as Extract<Told, Record<Key, unknown>>)
      })
    })
  const ask = (asked: Asked) => {
    child.send(asked)
  }

  const { port } = await hear('port')
  return {
    endpoint: `http://127.0.0.1:${port}`,
    state: () => state,
    startOutageScript: () => {
      ask('start the outage script')
    },
    close: async () => {
      ask('books')
      const { books } = await hear('books')
      child.off('exit', endedEarly)
      child.disconnect()
      return books
    },
  }
}
