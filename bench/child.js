// One measurement in a separate process: one scenario, one subject. The parent gives the order as
// the first argument and gets the result over the IPC channel; the collector is reached through it.
import { createSubject, NOOP } from './subjects/index.js'

const { scenario, subject, variant, endpoint, size } = JSON.parse(process.argv[2])

const answers = new Map()
process.on('message', ({ id, answer }) => {
  answers.get(id)(answer)
  answers.delete(id)
})

let asked = 0
const ask = (command, args = {}) =>
  new Promise((resolve) => {
    asked += 1
    answers.set(asked, resolve)
    process.send({ id: asked, command, ...args })
  })

const { default: module } = await import(`./scenarios/${scenario}.js`)
const result = await module.measure({
  create: (options = {}) => createSubject(subject, { endpoint, flushAt: 20, ...options }),
  isNoop: subject === NOOP,
  variant,
  size,
  ask,
})
// Whatever the subject still holds open, its measurement is over.
process.send({ result }, () => process.exit(0))
