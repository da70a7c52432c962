// The destination's hand-written minimum, on the same settings file: what nobody can leave out on the way
// from a batch to signed deliveries that survive a crash, and no more. It parses, makes each message's text,
// stores those of the requests that wait together, then answers; signs, POSTs, and notes what was delivered.
//
// It checks nothing, has no log of attempts, no circuit breakers, no lanes, and forgets what failed. Each source has one
// destination, with one endpoint.
import { createHmac } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { library } from './libraries.js'

const { Pool } = library('undici')

/** As the destination's default. */
const CONNECTIONS = 128
/** How long the first of a group waits for others. */
const GATHER_MS = 2

const settings = JSON.parse(readFileSync(process.argv[2], 'utf8'))
const store = openStore(settings.store.replace('sqlite:', ''))
/** Posts a message to the endpoint of a source, by the header that its clients send. */
const posts = new Map(
  settings.sources.flatMap(({ name, writeKey }) => {
    const destination = settings.destinations.find(({ sources }) => sources.includes(name))
    const header = `Basic ${Buffer.from(`${writeKey}:`).toString('base64')}`
    return destination ? [[header, createPost(destination)]] : []
  }),
)

function openStore(path) {
  const sqlite = process.getBuiltinModule('node:sqlite') ?? library('@photostructure/sqlite')
  const database = new sqlite.DatabaseSync(path)
  database.exec(`
    PRAGMA journal_mode = WAL;
    PRAGMA synchronous = FULL;
    CREATE TABLE IF NOT EXISTS messages (
      id INTEGER PRIMARY KEY, message_id TEXT NOT NULL UNIQUE, body TEXT NOT NULL,
      attempts INTEGER NOT NULL, due_at INTEGER NOT NULL, done_at INTEGER
    );
    CREATE INDEX IF NOT EXISTS waiting ON messages (due_at) WHERE done_at IS NULL;
  `)
  const put = database.prepare(
    'INSERT INTO messages (message_id, body, attempts, due_at) VALUES (?, ?, 1, ?) ON CONFLICT DO NOTHING',
  )
  const settle = database.prepare('UPDATE messages SET done_at = ? WHERE id = ? AND attempts = 1')

  /** One commit for all of it. Gives each message its id, if it is new. */
  return (groups, doneIds) => {
    const now = Date.now()
    database.exec('BEGIN IMMEDIATE')
    for (const id of doneIds) settle.run(now, id)
    for (const { messages } of groups) {
      for (const message of messages) {
        const { changes, lastInsertRowid } = put.run(message.messageId, message.body, now + 30_000)
        if (changes > 0) message.id = lastInsertRowid
      }
    }
    database.exec('COMMIT')
  }
}

const toBody = ({ type, userId, event, properties, timestamp, anonymousId, context }) =>
  JSON.stringify({
    version: 1,
    type,
    userId,
    event,
    properties,
    timestamp,
    anonymousId,
    context,
  })

let groups = []
let doneIds = []
let isWaiting = false

function commitSoon() {
  if (isWaiting) return
  isWaiting = true
  setTimeout(commit, GATHER_MS)
}

function commit() {
  const committed = groups
  const settled = doneIds
  groups = []
  doneIds = []
  isWaiting = false
  store(committed, settled)
  for (const { messages, response, post } of committed) {
    response.setHeader('content-type', 'application/json')
    response.end('{"success":true}')
    for (const message of messages) if (message.id !== undefined) post(message)
  }
}

function createPost({ sharedSecret, webhooks: [{ url }] }) {
  const { origin, pathname } = new URL(url)
  const pool = new Pool(origin, { connections: CONNECTIONS, headersTimeout: 0, bodyTimeout: 0 })
  return ({ id, messageId, body }) => {
    const signature = createHmac('sha1', sharedSecret).update(body).digest('hex')
    pool.dispatch(
      {
        path: pathname,
        method: 'POST',
        headers: [
          'User-Agent',
          'Service.io/1.0',
          'Content-Type',
          'application/json',
          'X-Signature',
          signature,
          'X-Message-Id',
          messageId,
          'X-Attempt',
          '1',
        ],
        body,
      },
      new Answer(id),
    )
  }
}

/** What undici tells of an answer: only its status counts. */
class Answer {
  #id
  #isDelivered = false

  constructor(id) {
    this.#id = id
  }

  onConnect() {
    // undici asks for it.
  }

  onHeaders(status) {
    this.#isDelivered = status >= 200 && status < 300
    return true
  }

  onData() {
    return true
  }

  onComplete() {
    if (!this.#isDelivered) return
    doneIds.push(this.#id)
    commitSoon()
  }

  onError({ message }) {
    console.error(message)
  }
}

const server = createServer((request, response) => {
  const chunks = []
  request.on('data', (chunk) => chunks.push(chunk))
  request.on('end', () => {
    const { batch } = JSON.parse(Buffer.concat(chunks).toString())
    const messages = batch.map((call) => ({ messageId: call.messageId, body: toBody(call) }))
    groups.push({ messages, response, post: posts.get(request.headers.authorization) })
    commitSoon()
  })
})
server.keepAliveTimeout = 120_000
server.listen(0, '127.0.0.1', () =>
  console.log(
    JSON.stringify({ msg: 'listening', url: `http://127.0.0.1:${server.address().port}` }),
  ),
)
process.on('SIGTERM', () => process.exit(0))
