// A PostgreSQL cluster of two nodes under Patroni, whose leader etcd elects, on this machine. A commit of the primary waits for
// the standby. Each node can be killed or frozen as a machine would be: all of its processes at once. Its `link` is how the other
// one reaches it.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  chownSync,
  closeSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { atEnd } from '../cleanup.js'
import { openLink } from './forward.js'
import { freePorts } from './ports.js'

const NODES = ['a', 'b']
/** PostgreSQL refuses to run as root. The user and group "nobody" have this number on Debian. */
const NOBODY = 65_534
const isRoot = process.getuid?.() === 0
const OWNER = isRoot ? { uid: NOBODY, gid: NOBODY } : {}

/** In seconds: the shortest that Patroni allows. So long a node may be silent before another one becomes the primary. */
const TTL = 20
const ASK_MS = 200
const PATIENCE_MS = 120_000

/** @param {ReturnType<import('./programs.js').findPrograms>} programs */
export async function startCluster(root, programs) {
  const [etcdPort, peerPort, ...ports] = await freePorts(2 + 2 * NODES.length)
  own(root)
  const etcd = start(programs.etcd, etcdArgs(join(root, 'etcd'), etcdPort, peerPort), root, 'etcd')
  const links = await Promise.all(NODES.map((_, i) => openLink(ports[2 * i])))
  const nodes = NODES.map((name, i) => {
    const link = links[i]
    const [port, restPort] = ports.slice(2 * i, 2 * i + 2)
    const folder = join(root, name)
    mkdirSync(folder)
    own(folder)
    const config = join(folder, 'patroni.json')
    const rest = `127.0.0.1:${restPort}`
    writeFileSync(
      config,
      JSON.stringify(
        configOf({ ...{ name, folder, port, rest, etcdPort, programs }, linkPort: link.port }),
      ),
    )
    return { name, folder, config, port, rest, link, running: undefined }
  })
  const run = (node) => {
    const args = [programs.patroni, node.config]
    node.running = start(programs.python, args, node.folder, 'patroni', programs.env)
  }
  for (const node of nodes) run(node)

  const pids = (node) => [node.running?.pid, serverOf(node)].flatMap(treeOf)
  const signal = (node, name) => {
    // The node first, so that it starts nothing while the others get their signals.
    for (const pid of pids(node)) send(pid, name)
  }
  /** Resolves with what `look` finds. */
  const eventually = async (what, look) => {
    for (const late = performance.now() + PATIENCE_MS; ; await sleep(ASK_MS)) {
      const found = await look()
      if (found) return found
      if (performance.now() > late)
        throw new Error(`It was awaited that ${what}.\n${wordsOf(nodes)}`)
    }
  }
  const cluster = {
    nodes,
    /** Whether a node is the primary by its own word. `undefined` if it does not answer. */
    isPrimary: (node) => asks(node, '/primary'),
    /** Waits until one node is the primary and the other one confirms its commits. @returns both */
    whole: (when) =>
      eventually(`the cluster is whole ${when}`, async () => {
        const members = await membersOf(nodes)
        const isUp = ({ state }) => state === 'running' || state === 'streaming'
        const leader = members.find((one) => one.role === 'leader' && isUp(one))
        const standby = members.find((one) => one.role === 'sync_standby' && isUp(one))
        const nodeOf = ({ name }) => nodes.find((node) => node.name === name)
        return leader && standby && { primary: nodeOf(leader), standby: nodeOf(standby) }
      }),
    /** Waits until a node says that it is the primary, or that it is not. */
    primaryIs: (node, isPrimary) =>
      eventually(
        `${node.name} is ${isPrimary ? 'the' : 'no'} primary`,
        async () => (await cluster.isPrimary(node)) === isPrimary,
      ),
    kill(node) {
      signal(node, 'SIGKILL')
      node.running = undefined
    },
    freeze: (node) => signal(node, 'SIGSTOP'),
    wake: (node) => signal(node, 'SIGCONT'),
    start: run,
    async stop() {
      for (const node of nodes) {
        signal(node, 'SIGCONT')
        cluster.kill(node)
      }
      for (const { link } of nodes) link.close()
      etcd.kill('SIGKILL')
      await etcd.exited
    },
  }
  atEnd(() => {
    for (const node of nodes) signal(node, 'SIGKILL')
  })
  return cluster
}

const etcdArgs = (folder, port, peerPort) => [
  ...['--name', 'one', '--data-dir', folder, '--log-level', 'error'],
  ...['--listen-client-urls', `http://127.0.0.1:${port}`],
  ...['--advertise-client-urls', `http://127.0.0.1:${port}`],
  ...['--listen-peer-urls', `http://127.0.0.1:${peerPort}`],
  ...['--initial-advertise-peer-urls', `http://127.0.0.1:${peerPort}`],
  ...['--initial-cluster', `one=http://127.0.0.1:${peerPort}`],
]

const configOf = ({ name, folder, port, linkPort, rest, etcdPort, programs }) => ({
  scope: 'hookline',
  name,
  restapi: { listen: rest, connect_address: rest },
  etcd3: { host: `127.0.0.1:${etcdPort}` },
  bootstrap: {
    dcs: {
      ...{ ttl: TTL, loop_wait: 1, retry_timeout: 5, synchronous_mode: true },
      postgresql: {
        use_pg_rewind: true,
        parameters: { wal_log_hints: 'on', max_connections: 60, shared_buffers: '32MB' },
      },
    },
    initdb: [{ encoding: 'UTF8' }, { locale: 'C' }],
  },
  postgresql: {
    listen: `127.0.0.1:${port}`,
    connect_address: `127.0.0.1:${linkPort}`,
    data_dir: join(folder, 'data'),
    bin_dir: programs.postgres,
    pgpass: join(folder, 'pgpass'),
    authentication: {
      superuser: { username: 'postgres', password: 'proof' },
      replication: { username: 'replicator', password: 'proof' },
    },
    parameters: { unix_socket_directories: folder },
    pg_hba: [
      'local all all trust',
      'host all all 127.0.0.1/32 scram-sha-256',
      'host replication all 127.0.0.1/32 scram-sha-256',
    ],
  },
})

/** Starts a program with its output in a file. */
function start(program, args, folder, name, env = {}) {
  const output = openSync(join(folder, `${name}.log`), 'a')
  const child = spawn(program, args, {
    ...OWNER,
    cwd: folder,
    env: { ...process.env, HOME: folder, ...env },
    stdio: ['ignore', output, output],
  })
  closeSync(output)
  const exited = once(child, 'exit')
  void exited.then(atEnd(() => child.kill('SIGKILL')))
  return Object.assign(child, { exited })
}

function own(path) {
  if (isRoot) chownSync(path, NOBODY, NOBODY)
}

function send(pid, name) {
  try {
    process.kill(pid, name)
  } catch {
    // It has ended.
  }
}

/** The server of a node is not a child of its Patroni, so that it outlives it. Its id is in a file of its own. */
function serverOf({ folder }) {
  try {
    const [pid] = readFileSync(join(folder, 'data/postmaster.pid'), 'utf8').split('\n')
    return commandOf(pid).includes(folder) ? Number(pid) : undefined
  } catch {
    return undefined
  }
}

/** A process and all that it started, themselves and further down. */
function treeOf(root) {
  if (root === undefined) return []
  const children = new Map()
  for (const entry of readdirSync('/proc').filter((name) => /^\d+$/.test(name))) {
    const parent = parentOf(entry)
    children.set(parent, [...(children.get(parent) ?? []), Number(entry)])
  }
  const tree = [root]
  for (const pid of tree) tree.push(...(children.get(pid) ?? []))
  return tree
}

/** The fourth field of /proc/PID/stat; the second is a name in parentheses, which may have spaces (proc(5)). */
function parentOf(pid) {
  try {
    return Number(/\) \S (\d+)/.exec(readFileSync(`/proc/${pid}/stat`, 'utf8'))?.[1])
  } catch {
    return undefined
  }
}

function commandOf(pid) {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8')
  } catch {
    return ''
  }
}

async function asks(node, path) {
  try {
    const signal = AbortSignal.timeout(1_000)
    return (await fetch(`http://${node.rest}${path}`, { signal })).status === 200
  } catch {
    return undefined
  }
}

/** What the nodes know of the cluster, by the first one that answers. */
async function membersOf(nodes) {
  for (const node of nodes) {
    try {
      const signal = AbortSignal.timeout(1_000)
      const answer = await fetch(`http://${node.rest}/cluster`, { signal })
      return (await answer.json()).members ?? []
    } catch {
      // The next one may answer.
    }
  }
  return []
}

const wordsOf = (nodes) =>
  nodes
    .map(
      ({ name, folder }) =>
        `${name}: ${readFileSync(join(folder, 'patroni.log'), 'utf8').slice(-800)}`,
    )
    .join('\n')
