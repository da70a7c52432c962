// Puts and settles as fast as it can, and prints the acknowledged ids, until it is killed.
// Usage: node put-under-load.js COMPILED_DIR STORE_URL RUN [--idle]
import { writeSync } from 'node:fs'

const [, , compiledDir, url, run, idle] = process.argv
const { openStore } = await import(`${compiledDir}/store/open.js`)
const store = await openStore(url)
say({ open: true })

let next = 0
const callers = idle ? 0 : 20
for (let caller = 0; caller < callers; caller++) void call()

async function call() {
  for (;;) {
    const deliveries = Array.from({ length: 5 }, delivery)
    const ids = await store.put(deliveries)
    say({ put: deliveries.map(({ messageId }) => messageId) })
    const settlements = ids
      .slice(0, 2)
      .map((id) => ({ id, attempt: 1, next: { state: 'done' }, refusedBy: [], log: [] }))
    await store.settle(settlements)
    say({ settled: deliveries.slice(0, 2).map(({ messageId }) => messageId) })
  }
}

function delivery() {
  const messageId = `${run}-${next++}`
  const body = JSON.stringify({ messageId, text: 'x'.repeat(400) })
  const of = { source: 'web', destination: 'crm', type: 'track', user: 'ann' }
  return { messageId, ...of, body, state: 'leased' }
}

// Writes synchronously: the test has to know each acknowledged id, even if the kill comes right after it.
function say(line) {
  writeSync(1, `${JSON.stringify(line)}\n`)
}
