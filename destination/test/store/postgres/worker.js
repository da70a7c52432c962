// A process that delivers from a store, for the tests: claims, "sends" each to its parent, and settles.
//
//     node worker.js COMPILED URL
//
// It is told `{ pause: true }` to stop itself between sending and settling, as a machine that is suspended does.
// CLOCK_OFF_MS sets its clock off.

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
      // Some have to be tried again.
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

/** As the settler does: what came of an attempt is given to the store until it takes it. */
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
