// Ways through which connections pass, so that they can be led elsewhere, cut and mended.
import { once } from 'node:events'
import { connect, createServer } from 'node:net'

const ASK_MS = 500

/** @param {() => number | undefined} portOf where a new connection goes; nowhere if it is `undefined` */
async function startForward(portOf) {
  const sockets = new Set()
  let isCut = false
  const server = createServer((client) => {
    const port = portOf()
    if (port === undefined || isCut) return client.destroy()
    const upstream = connect(port, '127.0.0.1')
    for (const [socket, other] of [
      [client, upstream],
      [upstream, client],
    ]) {
      sockets.add(socket)
      socket.on('error', () => undefined)
      socket.on('close', () => {
        sockets.delete(socket)
        other.destroy()
      })
      socket.pipe(other)
    }
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const drop = () => {
    for (const socket of sockets) socket.destroy()
  }
  return {
    port: server.address().port,
    drop,
    /** Nothing arrives any more, and nobody is told. */
    cut() {
      isCut = true
      for (const socket of sockets) socket.unpipe().pause()
    },
    /** What was sent meanwhile is lost. */
    mend() {
      isCut = false
      drop()
    },
    close() {
      drop()
      server.close()
    },
  }
}

/** A link to a server that can be cut. */
export const openLink = (port) => startForward(() => port)

/**
 * The address of the primary, as a load balancer gives it: it asks each node whether it is the primary, and closes the
 * connections to one that is not, or does not answer, any more.
 */
export async function openAddress({ nodes, isPrimary }) {
  let primary
  let timer
  const forward = await startForward(() => primary?.port)
  const look = async () => {
    const answers = await Promise.all(nodes.map(isPrimary))
    const found = nodes[answers.indexOf(true)]
    if (found !== primary) forward.drop()
    primary = found
    timer = setTimeout(look, ASK_MS)
  }
  await look()
  return {
    port: forward.port,
    close() {
      clearTimeout(timer)
      forward.close()
    },
  }
}
