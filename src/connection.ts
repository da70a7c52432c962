import { http, https } from './runtime.js'

type Agent = InstanceType<NonNullable<typeof http>['Agent']>
type ClientRequest = ReturnType<NonNullable<typeof http>['request']>

/** Idle connections are closed before servers close them (Node's after 5 s), lest a request meets a closing one. */
const IDLE_CONNECTION_MS = 4_000

/** Node refuses an answer with more than 16 KB of headers, and the batch would be stored and sent again for ever. */
const MAX_HEADER_BYTES = 1_048_576

/** Node calls this method of an agent for each request; agents of other packages rely on that too. */
interface RequestAgent extends Agent {
  addRequest(request: ClientRequest & { maxHeaderSize?: number }, ...rest: unknown[]): void
}

/** Makes the agent that keeps connections to the endpoint open; nothing on runtimes other than Node. */
export function createAgent(protocol: string): Agent | undefined {
  const node = protocol === 'https:' ? https : http
  if (!node) return undefined
  const agent = new node.Agent({ keepAlive: true, timeout: IDLE_CONNECTION_MS }) as RequestAgent
  const addRequest = agent.addRequest.bind(agent)
  agent.addRequest = (request, ...rest) => {
    prepare(request)
    addRequest(request, ...rest)
  }
  return agent
}

function prepare(request: ClientRequest & { maxHeaderSize?: number }): void {
  request.maxHeaderSize = MAX_HEADER_BYTES
  // A request must not hold the process: whether a script may end is decided in exit.ts alone.
  request.once('socket', (socket) => {
    socket.unref()
  })
  // node-fetch 2 never ends the body of an answer that is cut off inside its Content-Length, and the
  // pipeline would stall until the timeout: https://github.com/node-fetch/node-fetch/issues/968.
  request.once('response', (response) => {
    response.once('close', () => {
      if (!response.complete) response.emit('end')
    })
  })
}
