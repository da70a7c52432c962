// A customer's endpoint in its own process. It goes down when its parent asks for it, and keeps books of the messages
// that it got. With `--forget <n>` it answers every nth message with 204, but does not keep it.
import type { AddressInfo } from 'node:net'
import { setTimeout } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import express from 'express'
import { webhook } from 'hookline/express'
import type { ReceiverBooks } from './compare.js'

export type ReceiverState = 'up' | 'answers 503' | 'port closed'

/** A message from the parent process. */
export type Asked = ReceiverState | 'books'

/** A message to the parent process. `answered` is how many messages were answered with 204; copies count once. */
export type Told =
  { port: number } | { state: ReceiverState } | { answered: number } | { books: ReceiverBooks }

/** How long it works on each message, in ms, so that some messages are in flight at any moment. */
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
    // The destination sends JSON that does not change when it is parsed and stringified, so this is the text that was sent.
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
  process.exit() // the receiver must not outlive its parent, however that ends
})
