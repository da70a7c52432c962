// A process that delivers from a store of several servers, for the tests: it claims messages, "sends" each to its parent, and
// settles it. Each third message needs a second attempt.
//
//     node worker.js COMPILED PLACES
//
// OFF_MS sets the clock of the stores forward. So does a message `{ off }`. A message `{ isOver: true }` ends the process, once it
// has said what it has done.

const [, , compiled, places] = process.argv
let off = Number(process.env.OFF_MS ?? 0)
let isOver = false
process.on('message', (message) => {
  off = message.off ?? off
  isOver = message.isOver ?? false
})
process.on('disconnect', () => process.exit())

const { openPostgres } = await import(`${compiled}/store/postgres/store.js`)
const { openSeveral } = await import(`${compiled}/store/several/open.js`)
const say = (what) => new Promise((resolve) => process.send(what, resolve))
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms))

async function open() {
  for (;;) {
    try {
      return await openSeveral(
        JSON.parse(places).map(({ name, url }) => ({
          name,
          open: () => openPostgres(url, () => Date.now() + off, false, true),
        })),
      )
    } catch (error) {
      if (!error.isUnreachable) throw error
      await pause(100)
    }
  }
}

const store = await open()
await say({ open: true })
const WANTS = ['fresh', 'backlog', 'bulk'].map((lane) => ({ destination: 'crm', lane, limit: 20 }))

while (!isOver) {
  try {
    const deliveries = await store.claim(WANTS)
    const isAgain = ({ attempt, messageId }) => attempt === 1 && messageId.endsWith('3')
    for (const { messageId } of deliveries) await say({ sent: messageId })
    await store.settle(
      deliveries.map((one) => ({
        id: one.id,
        attempt: one.attempt,
        next: isAgain(one) ? { state: 'backlog', delayMs: 300 } : { state: 'done' },
        refusedBy: [],
        log: [],
      })),
    )
    for (const one of deliveries) {
      await say(isAgain(one) ? { again: one.messageId } : { done: one.messageId })
    }
    if (deliveries.length === 0) await pause(20)
  } catch (error) {
    if (error.name !== 'StoreError') throw error
    await pause(50)
  }
}
process.disconnect()
