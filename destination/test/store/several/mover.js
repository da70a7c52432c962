// A process that moves shares and kills itself at one step of it, for the tests.
//
//     node mover.js COMPILED PLACES PLAN KILL
//
// PLACES are the servers as JSON, PLAN is JSON with the new server of each share, and KILL is the number of a step, from 1: before it
// is asked for if the number is odd, and after its answer if it is even. With KILL 0 the process moves everything.
//
// OFF_MS sets the clock of the stores forward. So does a message `{ off }`.

const [, , compiled, places, plan, kill] = process.argv
let off = Number(process.env.OFF_MS ?? 0)
process.on('message', (message) => {
  off = message.off
})
process.on('disconnect', () => process.exit())
const { openPostgres } = await import(`${compiled}/store/postgres/store.js`)
const { openSeveral } = await import(`${compiled}/store/several/open.js`)

const say = (what) => new Promise((resolve) => process.send(what, resolve))
let steps = 0
const count = () => {
  if (++steps === Number(kill)) process.kill(process.pid, 'SIGKILL')
}

/** Counts the calls of some functions of an object, before and after. */
function counted(target, names) {
  for (const name of names) {
    const original = target[name].bind(target)
    target[name] = async (...given) => {
      count()
      const value = await original(...given)
      count()
      return value
    }
  }
}

const STEPS = ['intend', 'grant', 'withdraw', 'handOver', 'moveSome', 'finish']

const store = await openSeveral(
  JSON.parse(places).map(({ name, url }) => ({
    name,
    open: async () => {
      const one = await openPostgres(url, () => Date.now() + off, false, true)
      counted(one.asServer.moving, STEPS)
      counted(one, ['copyIn'])
      return one
    },
  })),
)
try {
  await store.servers.move(
    () => new Map(JSON.parse(plan)),
    () => undefined,
  )
  await say({ steps })
} catch (error) {
  await say({ failed: error.message })
} finally {
  await store.close()
}
process.disconnect()
