import { once } from 'node:events'
import { connect } from 'node:net'

/** The body of a request whose last part comes once the test lets it. */
export function slowBody(first: string, last: string) {
  let stream: ReadableStreamDefaultController<Uint8Array> | undefined
  const body = new ReadableStream<Uint8Array>({
    start: (controller) => {
      stream = controller
      controller.enqueue(Buffer.from(first))
    },
  })
  const goOn = () => {
    stream?.enqueue(Buffer.from(last))
    stream?.close()
  }
  return { body, goOn }
}

/**
 * Sends a request but for the end of its body. It resolves once the server has its headers: a request before it on the same
 * connection is answered then.
 *
 * @returns what sends the rest, and resolves with the answer.
 */
export async function halfSent(
  url: string,
  method: string,
  path: string,
  authorization: string,
  body: string,
): Promise<() => Promise<{ status: number; text: string }>> {
  const socket = connect(Number(new URL(url).port), '127.0.0.1')
  let got = ''
  socket.setEncoding('utf8').on('data', (data) => (got += String(data)))
  const half = Math.floor(body.length / 2)
  socket.write(
    'GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n' +
      `${method} ${path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nAuthorization: ${authorization}\r\n` +
      `Content-Type: application/x-ndjson\r\nContent-Length: ${body.length}\r\n\r\n${body.slice(0, half)}`,
  )
  await once(socket, 'data')
  // The rights are looked up without waiting for anything outside the process. This request is answered after that.
  for (let n = 0; n < 5; n++) await fetch(`${url}/healthz`)
  return async () => {
    socket.write(body.slice(half))
    await once(socket, 'close')
    const answer = got.slice(got.lastIndexOf('HTTP/1.1 '))
    return { status: Number(answer.slice(9, 12)), text: answer }
  }
}
