import { fork } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import type { ReceiverBooks } from './compare.js'
import type { Asked, ReceiverState, Told } from './receiver.js'

export interface ReceiverProcess {
  readonly url: string
  /** How many messages it answered with 204. Copies of a message count once. */
  readonly answered: () => number
  readonly become: (state: ReceiverState) => Promise<void>
  /** Stops it. Resolves to its books. */
  readonly close: () => Promise<ReceiverBooks>
}

/** Starts a receiver in its own process. If that ends early, the demo ends with an error. */
export async function startReceiver(secret: string, args: string[]): Promise<ReceiverProcess> {
  const file = fileURLToPath(new URL('receiver.ts', import.meta.url))
  const child = fork(file, ['--secret', secret, ...args])
  const endedEarly = (code: number | null) => {
    throw new Error(`A receiver ended before the demo did, with the exit code ${code}.`)
  }
  child.on('exit', endedEarly)

  let answered = 0
  child.on('message', (told: Told) => {
    if ('answered' in told) answered = told.answered
  })
  const hear = <Key extends string>(key: Key) =>
    new Promise<Extract<Told, Record<Key, unknown>>>((resolve) => {
      const listen = (told: Told) => {
        if (!(key in told)) return
        child.off('message', listen)
        resolve(told as Extract<Told, Record<Key, unknown>>)
      }
      child.on('message', listen)
    })
  const ask = (asked: Asked) => {
    child.send(asked)
  }

  const { port } = await hear('port')
  return {
    url: `http://127.0.0.1:${port}/hook`,
    answered: () => answered,
    become: async (state) => {
      ask(state)
      await hear('state')
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
