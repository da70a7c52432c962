// Ports of this machine that no other test gets meanwhile. Clients that retry, or wait until a process listens, would reach its server.
import { once } from 'node:events'
import { connect, createServer, type AddressInfo, type Socket } from 'node:net'

/** A port that nobody listens on, and that the system gives to nobody else for as long as this process runs. */
export async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  const keeper = await keepPort(port)
  keeper.unref()
  return port
}

/**
 * Takes a port for a connection of our own, until that is destroyed: it refuses those of others, and the system gives it to nobody else.
 * Whoever names the port can still listen on it.
 */
export async function keepPort(port: number): Promise<Socket> {
  const server = createServer((peer) => peer.on('error', () => undefined).unref())
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port: other } = server.address() as AddressInfo
  const local = { localAddress: '127.0.0.1', localPort: port }
  const socket = connect({ host: '127.0.0.1', port: other, ...local })
  await once(socket, 'connect')
  server.close()
  return socket
}
