import { once } from 'node:events'
import { connect, createServer, type AddressInfo, type Socket } from 'node:net'

/** A way to a server that can go bad. */
export interface Proxy extends AsyncDisposable {
  port: number
  /** Lets nothing through any more, either way, without a word to either side: a cable that was pulled. */
  silence(): void
  /** Lets new connections through again; those that were there stay silent. */
  fix(): void
}

/**
 * @param refuse - What is answered, instead of the server's answer, to the first thing that a client says; `undefined`
 * for nothing.
 */
export async function startProxy(
  port: number,
  refuse: (first: Buffer) => Buffer | undefined = () => undefined,
): Promise<Proxy> {
  let isSilent = false
  const sockets = new Set<Socket>()
  const server = createServer({ allowHalfOpen: false }, (client) => {
    const upstream = connect(port, '127.0.0.1')
    let isDead = isSilent
    const pass = (from: Socket, to: Socket) => {
      sockets.add(from)
      from.on('error', () => to.destroy())
      from.on('close', () => {
        if (!isDead) to.destroy()
      })
      from.on('data', (data) => {
        isDead ||= isSilent
        if (!isDead) to.write(data)
      })
    }
    client.once('data', (first) => {
      const answer = refuse(first)
      if (answer) {
        isDead = true
        client.end(answer)
        upstream.destroy()
      }
    })
    pass(client, upstream)
    pass(upstream, client)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    port: (server.address() as AddressInfo).port,
    silence: () => {
      isSilent = true
    },
    fix: () => {
      isSilent = false
    },
    [Symbol.asyncDispose]: async () => {
      for (const socket of sockets) socket.destroy()
      server.close()
      await once(server, 'close')
    },
  }
}
