// A customer's endpoint, in a process of its own. It goes down when it is told to, and keeps books on what it
// got. With `--forget <n>` it lies: it answers 204, and forgets every nth message.
import type { AddressInfo } from 'node:net'
import { setTimeout } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import express from 'express'
import { webhook } from 'hookline/express'
import type { ReceiverBooks } from './compare.js'

export type ReceiverState = 'up' | 'answers 503' | 'port closed'

/** What its parent tells it. */
export type Asked = ReceiverState | 'books'

/** What it tells its parent: `answered` counts the messages that it answered 204, each once. */
export type Told =
  { port: number } | { state: ReceiverState } | { answered: number } | { books: ReceiverBooks }

/** The time that a message takes it, in ms: at any moment, some are on their way. */
const WORK_MS = 20

const options = { secret: { type: 'string' }, forget: { type: 'string' } } as const
const { secret, forget } = parseArgs({ options }).values
const forgetEvery = Number(forget ?? Infinity)

const books: ReceiverBooks = { received: [], answered503: 0, wrongSignatures: 0 }
const answered = new Set<string>()
let state: ReceiverState = 'up'
let count = 0

const app = express()
const onRefused = () => {
  books.wrongSignatures++
}
app.post(
  '/hook',
  webhook({ secret, onRefused }, async (event, request, response) => {
    if (state !== 'up') {
      books.answered503++
      response.status(503).send('The receiver is down.')
      return
    }
    const id = request.get('x-message-id') ?? ''
    answered.add(id)
    // The body is a fixed point of JSON: parsed and stringified, it is the text that was sent.
    const body = JSON.stringify(event)
    if (++count % forgetEvery !== 0) books.received.push({ id, body, atMs: Date.now() })
    await setTimeout(WORK_MS)
  }),
)

const server = app.listen(0, '127.0.0.1', () => {
  const { port } = server.address() as AddressInfo
  process.on('message', (asked: Asked) => {
    if (asked === 'books') tell({ books })
    else become(asked, port)
  })
  setInterval(() => {
    tell({ answered: answered.size })
  }, 100)
  tell({ port })
})

function become(next: ReceiverState, port: number): void {
  if (next === 'port closed') {
    server.close()
    server.closeAllConnections()
  }
  if (state === 'port closed') server.listen(port, '127.0.0.1')
  state = next
  tell({ state })
}

function tell(told: Told): void {
  process.send?.(told)
}

process.on('disconnect', () => {
  process.exit() // however the parent ended: the receiver never outlives it
})
