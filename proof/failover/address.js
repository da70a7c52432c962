// The address of the primary, as a load balancer gives it: it asks each node whether it is the primary, and closes the connections
// to one that is not, or does not answer, any more.
import { once } from 'node:events'
import { connect, createServer } from 'node:net'

const ASK_MS = 500

export async function openAddress({ nodes, isPrimary }) {
  let primary
  const sockets = new Set()
  const server = createServer((client) => {
    if (!primary) return client.destroy()
    const upstream = connect(primary.port, '127.0.0.1')
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

  const look = async () => {
    const answers = await Promise.all(nodes.map(isPrimary))
    const found = nodes[answers.indexOf(true)]
    if (found === primary) return
    primary = found
    for (const socket of sockets) socket.destroy()
  }
  let timer
  const lookAgain = async () => {
    await look()
    timer = setTimeout(lookAgain, ASK_MS)
  }
  await lookAgain()
  return {
    port: server.address().port,
    close() {
      clearTimeout(timer)
      for (const socket of sockets) socket.destroy()
      server.close()
    },
  }
}
