import { once } from 'node:events'
import { connect, createServer, type AddressInfo, type Socket } from 'node:net'

/** A TCP proxy in front of a server, which simulates network failures. */
export interface Proxy extends AsyncDisposable {
  port: number
  /** Drops all data in both directions without closing connections, like a cable that was pulled. */
  silence(): void
  /** Passes on nothing more that the server sends, as for a process that was stopped and reads nothing. */
  stopReading(): void
  /** Lets new connections through again. Connections that went silent stay silent. */
  fix(): void
  /** Cuts all connections. New ones lead to another server. */
  leadTo(port: number): void
}

/**
 * @param refuse - Gets the first data of a client. If it returns data, the client gets that instead of the server's
 * answer, and the connection ends. If it returns `undefined`, the connection goes through.
 * @param onData - Called whenever a client has sent something, before that is passed on.
 */
export async function startProxy(
  port: number,
  refuse: (first: Buffer) => Buffer | undefined = () => undefined,
  onData: (data: Buffer) => void = () => undefined,
): Promise<Proxy> {
  let isSilent = false
  let target = port
  const sockets = new Set<Socket>()
  const upstreams = new Set<Socket>()
  const server = createServer({ allowHalfOpen: true }, (client) => {
    const upstream = connect(target, '127.0.0.1')
    upstreams.add(upstream)
    let isDead = isSilent
    const pass = (from: Socket, to: Socket) => {
      sockets.add(from)
      from.on('error', () => to.destroy())
      from.on('close', () => {
        if (!isDead) to.destroy()
      })
      from.on('end', () => {
        isDead ||= isSilent
        if (!isDead) to.end()
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
    client.on('data', onData)
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
    stopReading: () => {
      for (const upstream of upstreams) upstream.pause()
    },
    fix: () => {
      isSilent = false
    },
    leadTo: (port) => {
      target = port
      for (const socket of sockets) socket.destroy()
    },
    [Symbol.asyncDispose]: async () => {
      for (const socket of sockets) socket.destroy()
      server.close()
      await once(server, 'close')
    },
  }
}

/**
 * The message with which a server refuses a connection: https://www.postgresql.org/docs/current/protocol-message-formats.html
 * (ErrorResponse)
 */
export function refusal(code: string, message: string): Buffer {
  const fields = `SFATAL\0C${code}\0M${message}\0\0`
  const head = Buffer.from('E\0\0\0\0')
  head.writeInt32BE(Buffer.byteLength(fields) + 4, 1)
  return Buffer.concat([head, Buffer.from(fields)])
}
