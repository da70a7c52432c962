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
