// The transport that sends nothing: it takes a body and the subject gets a success. What it
// counts shows afterwards that the subject did its work.

export function createStub() {
  const stub = {
    /** Requests and bytes taken so far. */
    requests: 0,
    bytes: 0,
    /** Set to an array to keep copies of the bodies: a subject may use its buffer again. */
    kept: undefined,
    take(body) {
      stub.requests += 1
      stub.bytes += typeof body === 'string' ? body.length : (body.byteLength ?? body.size)
      stub.kept?.push(Buffer.from(body))
    },
  }
  return stub
}
