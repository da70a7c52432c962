// A process that moves shares and kills itself at one step of it, for the tests.
//
//     node mover.js COMPILED PLACES PLAN KILL
//
// PLACES are the servers as JSON, PLAN is JSON with the new server of each share, and KILL is the number of a step, from 1: before it
// is asked for if the number is odd, and after its answer if it is even. With KILL 0 the process moves everything.

const [, , compiled, places, plan, kill] = process.argv
const { openPostgres } = await import(`${compiled}/store/postgres/store.js`)
const { openSeveral } = await import(`${compiled}/store/several/open.js`)

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
      const one = await openPostgres(url, undefined, false, true)
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
  process.send({ steps })
} catch (error) {
  process.send({ failed: error.message })
} finally {
  await store.close()
}
