// The endpoint: a process of its own, which goes away for four seconds and keeps books on what it saw.
// With `--forget <n>` it lies: it answers 200, and forgets every nth message.
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { buffer } from 'node:stream/consumers'
import { setTimeout } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import type { CollectorBooks } from './compare.js'

export type EndpointState = 'up' | 'answers 500' | 'port closed'

/** What the collector tells its parent. */
export type Told = { port: number } | { state: EndpointState } | { books: CollectorBooks }

/** What its parent asks for. */
export type Asked = 'start the outage script' | 'books'

const options = { forget: { type: 'string', default: 'Infinity' } } as const
const forgetEvery = Number(parseArgs({ options }).values.forget)

const PHASE_MS = 2_000

const books: CollectorBooks = { accepted: [], refused: 0 }
let state: EndpointState = 'up'
let received = 0

const server = createServer((request, response) => {
  void receive(request, response)
})

async function receive(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const body = await buffer(request)
  if (state !== 'up') {
    books.refused++
    response.writeHead(500).end('The collector is down.')
    return
  }
  const { batch } = JSON.parse(body.toString()) as { batch: { messageId: string }[] }
  books.accepted.push({
    ids: batch.map(({ messageId }) => messageId).filter(() => ++received % forgetEvery !== 0),
    bytes: body.length,
    retries: Number(request.headers['x-retry-count'] ?? 0),
  })
  response.end('{"success":true}')
}

async function runOutageScript(): Promise<void> {
  const port = portOf()
  await setTimeout(PHASE_MS)
  enter('answers 500')
  await setTimeout(PHASE_MS)
  enter('port closed')
  server.close()
  server.closeAllConnections()
  await setTimeout(PHASE_MS)
  server.listen(port, '127.0.0.1', () => {
    enter('up')
  })
}

function enter(next: EndpointState): void {
  state = next
  tell({ state })
}

function portOf(): number {
  return (server.address() as AddressInfo).port
}

function tell(told: Told): void {
  process.send?.(told)
}

process.on('message', (asked: Asked) => {
  if (asked === 'books') tell({ books })
  else void runOutageScript()
})
process.on('disconnect', () => {
  process.exit() // however the parent ended: the collector never outlives it
})
server.listen(0, '127.0.0.1', () => {
  tell({ port: portOf() })
})
