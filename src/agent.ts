import type { Log } from './log.js'
import type { HttpAgent, Settings } from './options.js'
import { proxyFor } from './proxy.js'
import { currentProcess, http, https, isBun, type net } from './runtime.js'

type Node = NonNullable<typeof http>
type Agent = InstanceType<Node['Agent']>
type Socket = ReturnType<NonNullable<typeof net>['connect']>
type ClientRequest = ReturnType<Node['request']> & { maxHeaderSize?: number }

/** Node calls this method of an agent for each request; agents of other packages rely on that too. */
interface RequestAgent extends Agent {
  addRequest(request: ClientRequest, ...rest: unknown[]): void
}

/** The connections of a client. */
export interface Connections {
  /** What the default fetch opens connections with; without one, the runtime does. */
  readonly agent: HttpAgent | undefined
  /** Why there can be no connections: each request fails with it. */
  readonly error?: Error
  /** Closes idle connections, if they are the client's own. */
  readonly close: () => void
}

/** Idle connections are closed before servers close them (Node's after 5 s), lest a request meets a closing one. */
const IDLE_CONNECTION_MS = 4_000

/** Node refuses an answer with more than 16 KB of headers, and the batch would be stored and sent again for ever. */
const MAX_HEADER_BYTES = 1_048_576

export function createConnections(settings: Settings, log: Log): Connections {
  const { endpoint, agent, fetch } = settings
  const node = endpoint.protocol === 'https:' ? https : http
  // The agent of the application may serve others too: it stays as it is, and the application closes it.
  if (agent || fetch || !node || isBun) {
    const guarded = agent && guardTunnels(agent as unknown as RequestAgent, node === https)
    return { agent: guarded, close: () => undefined }
  }

  const found = proxyFor(endpoint, process.env)
  if (found instanceof Error && canProxy()) {
    log('no proxy: %s', found.message)
    return { agent, error: found, close: () => undefined }
  }
  const proxy = found instanceof URL ? found : undefined
  const own =
    proxy && canProxy()
      ? createProxyAgent(node, proxy, settings)
      : // Without proxyEnv, some versions of Node would take the proxy from the environment by rules of their own.
        new node.Agent({ keepAlive: true, timeout: IDLE_CONNECTION_MS, proxyEnv: {} } as object)
  prepareRequests(own as RequestAgent)
  if (proxy) logProxy(proxy, log)
  return {
    agent: own,
    close: () => {
      own.destroy()
    },
  }
}

/** An agent that does the same, but whose requests fail if the proxy refuses the tunnel. */
function guardTunnels(agent: RequestAgent, isSecure: boolean): RequestAgent {
  const addRequest: RequestAgent['addRequest'] = (request, ...rest) => {
    request.once('socket', (socket) => {
      refuseWithoutTunnel(request, socket, isSecure)
    })
    agent.addRequest(request, ...rest)
  }
  return new Proxy(agent, {
    get: (target, name): unknown =>
      name === 'addRequest' ? addRequest : Reflect.get(target, name),
  })
}

/**
 * https-proxy-agent replays the refusal of a proxy as the answer to a request, over a socket that takes no request. Agents that give
 * the proxy's own socket would send it the request, with the write key.
 */
function refuseWithoutTunnel(request: ClientRequest, socket: Socket, isSecure: boolean): void {
  const isWithoutTls = isSecure && !('encrypted' in socket && socket.encrypted)
  if (socket.writable && !isWithoutTls) return
  request.removeAllListeners('response') // node-fetch would take it for the endpoint's
  request.once('response', ({ statusCode }) => {
    request.destroy(new Error(`the proxy refused the tunnel: it answered ${statusCode}`))
  })
  if (socket.writable) {
    request.destroy(new Error('nothing was sent: the connection of the agent has no TLS'))
  }
}

function prepareRequests(agent: RequestAgent): void {
  const addRequest = agent.addRequest.bind(agent)
  agent.addRequest = (request, ...rest) => {
    prepare(request)
    addRequest(request, ...rest)
  }
}

function prepare(request: ClientRequest): void {
  request.maxHeaderSize = MAX_HEADER_BYTES
  // A request must not hold the process: exit.ts decides whether a script may end.
  request.once('socket', (socket) => {
    socket.unref()
  })
  // node-fetch 2 never ends the body of an answer that is cut off inside its Content-Length, and the
  // pipeline would stall until the timeout: https://github.com/node-fetch/node-fetch/issues/968.
  request.once('response', (response) => {
    // It neither notices that a chunked answer is cut off nor decompresses one unless the header is in lower case.
    for (const name of ['transfer-encoding', 'content-encoding'] as const) {
      const value = response.headers[name]
      if (value) response.headers[name] = value.toLowerCase()
    }
    response.once('close', () => {
      if (!response.complete) response.emit('end')
    })
  })
}

/** Whether the agents of this Node take a proxy. They have done so since it has this flag: 22.21 and 24.5. */
export function canProxy(): boolean {
  return currentProcess()?.allowedNodeEnvironmentFlags?.has('--use-env-proxy') ?? false
}

/** Says where requests go, without the user and the password that the URL may have. */
function logProxy({ protocol, host }: URL, log: Log): void {
  if (canProxy()) log('proxy %s//%s', protocol, host)
  else log('no proxy: this runtime cannot use %s//%s, give the option agent', protocol, host)
}

/** An agent whose requests go through a proxy; those to an https endpoint through a tunnel (CONNECT). */
function createProxyAgent(node: Pick<Node, 'Agent'>, proxy: URL, { timeoutMs }: Settings): Agent {
  const proxyEnv = { HTTP_PROXY: proxy.href, HTTPS_PROXY: proxy.href }
  // Here the timeout of the agent bounds the making of a tunnel too, which may take as long as a request.
  const timeout = Math.max(timeoutMs, IDLE_CONNECTION_MS)
  const agent = new node.Agent({ keepAlive: true, timeout, proxyEnv } as object)
  agent.on('free', (socket: Socket) => {
    if (!socket.timeout || socket.timeout > IDLE_CONNECTION_MS) {
      socket.setTimeout(IDLE_CONNECTION_MS)
    }
  })
  // A request that is ended does not end the tunnel that is made for it: that must not hold the process.
  const createConnection = agent.createConnection.bind(agent)
  agent.createConnection = (options, done) => {
    const connection = createConnection(options, (error, socket) => {
      ;(socket as Socket | undefined)?.ref() // There is none with an error.
      done?.(error, socket)
    }) as Socket
    if (options.protocol === 'https:') connection.unref()
    return connection
  }
  return agent
}
