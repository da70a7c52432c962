// What somebody does to the destination in a round, or what happens to it: one function for each kind of act in the plan.
import { setTimeout as sleep } from 'node:timers/promises'

/** An act that changes the settings of a destination. Some processes die while they read them. */
const changing = (change) => async (act, parts, numberOf) => {
  const { settings, service } = parts
  const destination = settings.destinations[act.destination]
  await change(destination, act, parts, numberOf)
  service.reload(`${act.do} ${destination.name}`)
  if (act.killAfterMs === undefined) return
  await sleep(act.killAfterMs)
  await service.kill(0)
}

/** An act of all endpoints of a destination. */
const failing =
  (mode) =>
  async (act, { settings, endpoints, tell }, numberOf) => {
    const destination = settings.destinations[act.destination]
    tell(`${act.do} of ${destination.name}`)
    for (const e of destination.webhooks.keys())
      await endpoints.tell('mode', { endpoint: numberOf(e), mode })
  }

export const ACTS = {
  burst({ count, isBulk }, { load, tell }) {
    tell(`a burst of ${count}${isBulk ? ' in bulk' : ''}`)
    for (let n = 0; n < count; n += 100) load.send(Math.min(100, count - n), { isBulk })
  },
  kill: ({ process, downMs }, { service }) => service.kill(process, downMs),
  restart: ({ process }, { service }) => service.restart(process),
  suspend: async ({ process }, { service }) => service.suspend(process),
  resume: async ({ process }, { service }) => service.resume(process),
  headers: changing((destination) => (destination.headers += 1)),
  limits: changing((destination, { concurrency, rateLimit }) => {
    for (const webhook of destination.webhooks) Object.assign(webhook, { concurrency, rateLimit })
  }),
  disable: changing((destination) => (destination.isEnabled = false)),
  enable: changing((destination) => (destination.isEnabled = true)),
  remove: changing((destination) => (destination.isPresent = false)),
  'put back': changing((destination) => (destination.isPresent = true)),
  /** The old entry stays, without sources, so that what waits is sent. */
  rename: changing((destination, _, { settings }) => {
    const old = { ...structuredClone(destination), sources: [] }
    settings.destinations.push(old)
    destination.name += 'r'
  }),
  rotate: changing(async (destination, _, { settings, endpoints }, numberOf) => {
    if (destination.secrets.length > 1) return
    const [old] = destination.secrets
    const secret = old.replace(/\d+$/, (number) => Number(number) + 1)
    for (const e of destination.webhooks.keys())
      await endpoints.tell('may be signed', { endpoint: numberOf(e), secret })
    setSecrets(settings, destination, [old, secret])
  }),
  outage: failing({ kind: 'status', status: 500, share: 1 }),
  recovery: failing({ kind: 'ok' }),
  'new secret': async ({ destination: n }, { settings, service, endpoints }, numberOf) => {
    // A receiver may change its secret once every process knows both.
    await service.settled()
    const destination = settings.destinations[n]
    const secret = destination.secrets.at(-1)
    for (const e of destination.webhooks.keys())
      await endpoints.tell('new secret', { endpoint: numberOf(e), secret })
    destination.known = secret
  },
  'end of rotation': changing((destination, _, { settings }) => {
    const secret = destination.secrets.at(-1)
    // The rotation of another act may have begun meanwhile.
    if (destination.known === secret) setSecrets(settings, destination, [secret])
  }),
  'wrong settings': (_, { service }) => service.reloadWrong(),
  'slow disk': async ({ delayMs }, { service, hasStrace, tell }) => {
    if (!hasStrace) return
    tell(`each fdatasync takes ${delayMs} ms more`)
    await service.kill(0, 0, slowDisk(delayMs))
  },
  'fast disk': (_, { service, hasStrace }) => hasStrace && service.kill(0),
  database: async ({ downMs }, { service, server }) => {
    const over = service.disturb('the server of PostgreSQL crashes', { afterMs: 35_000 })
    await server.stop('immediate')
    await sleep(downMs)
    await server.start()
    over()
  },
  audience({ audience, members }, { load, tell }) {
    tell(`the list of ${audience} has ${members.length} members`)
    load.administer(() => load.putAudience(audience, members))
  },
  deletion({ user }, { load, tell }) {
    tell(`user-${user} is deleted`)
    load.administer(() => load.delete(user))
  },
  replay(_, { load, tell }) {
    tell('all dead letters are replayed')
    load.administer(() => load.replay())
  },
}

function setSecrets({ destinations }, { origin }, secrets) {
  for (const one of destinations) if (one.origin === origin) one.secrets = secrets
}

/** The command under which each sync takes longer. */
const slowDisk = (delayMs) => [
  ...['strace', '-f', '-qq', '--seccomp-bpf', '-o', '/dev/null'],
  ...['-e', 'trace=fdatasync,fsync'],
  ...['-e', `inject=fdatasync,fsync:delay_enter=${delayMs * 1_000}`],
]
