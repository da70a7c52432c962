import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'

/** The address of a server that was told to listen, and how to stop it. */
export async function listening(server: Server) {
  if (!server.listening) await new Promise((resolve) => server.once('listening', resolve))
  const { port } = server.address() as AddressInfo
  const close = () => {
    server.closeAllConnections()
    return new Promise((resolve) => server.close(resolve))
  }
  return { url: `http://127.0.0.1:${port}/webhook`, close }
}
