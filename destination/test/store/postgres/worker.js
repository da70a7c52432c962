// A process that delivers from a store, for the tests: it claims deliveries, "sends" each to its parent and settles it.
//
//     node worker.js COMPILED URL
//
// After the message `{ pause: true }` it stops itself once between sending and settling, like a suspended machine.
// CLOCK_OFF_MS makes its clock wrong by that many ms.

const [, , compiled, url] = process.argv
const off = Number(process.env.CLOCK_OFF_MS ?? 0)
const realNow = Date.now
Date.now = () => realNow() + off

const { openStore } = await import(`${compiled}/store/open.js`)
const store = await openStore(url)
const say = (word) => new Promise((resolve) => process.send(word, resolve))
const WANTS = ['fresh', 'backlog'].map((lane) => ({ destination: 'crm', lane, limit: 20 }))
let isToPause = false

process.on('message', ({ pause }) => {
  isToPause ||= pause
})
process.on('disconnect', () => process.exit())
await say({ open: true })

for (;;) {
  try {
    const deliveries = await store.claim(WANTS)
    for (const { messageId, attempt } of deliveries) await say({ sent: messageId, attempt })
    if (isToPause && deliveries.length > 0) {
      isToPause = false
      await say({ paused: deliveries.map(({ messageId }) => messageId) })
      process.kill(process.pid, 'SIGSTOP')
    }
    const settlements = deliveries.map(({ id, attempt }) => ({
      id,
      attempt,
      // A fifth of the deliveries needs a second attempt.
      next: attempt === 1 && id % 5 === 0 ? { state: 'backlog', delayMs: 50 } : { state: 'done' },
      refusedBy: [],
      log: [],
    }))
    await settle(settlements)
    if (deliveries.length === 0) await new Promise((resolve) => setTimeout(resolve, 20))
  } catch (error) {
    if (error.name !== 'StoreError') throw error
    await say({ failed: error.code })
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
}

/** Repeats a settlement until the store accepts it, as the settler does. */
async function settle(settlements) {
  for (;;) {
    try {
      const refused = await store.settle(settlements)
      return await say({ settled: settlements.length - refused, refused })
    } catch (error) {
      await say({ failed: error.code })
      await new Promise((resolve) => setTimeout(resolve, 50))
    }
  }
}
