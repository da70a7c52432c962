import { isMainThread } from 'node:worker_threads'
import type { Database, OpenDatabase, Statement } from './driver.js'

// `process.exit` ends the threads, but not in the middle of a call of SQLite: `node:sqlite` makes it wait for the call,
// and the package ends the process with SIGABRT if its thread was ended during one. So the main thread first lets the call
// under way return, and keeps the threads from the next one. A transaction that was not committed is rolled back at the next start.

/** In ms: how long an exit waits for a call. A statement takes longer on a disk that hangs, or while another program writes. */
const EXIT_WAIT_MS = 1_000

/** The places in the shared memory: how many calls are under way, and whether the process exits (1). */
const CALLS = 0
const EXITS = 1

/** Memory that the threads of this process share. */
export type CallsMemory = Int32Array<SharedArrayBuffer>

let calls: CallsMemory | undefined

/** The memory in which the threads count their calls, for {@link counted}. From then on, an exit of the process waits for them. */
export function callsUntilExit(): CallsMemory {
  if (!calls) {
    const memory = new Int32Array(new SharedArrayBuffer(2 * Int32Array.BYTES_PER_ELEMENT))
    // `exit` is also emitted after an error that nobody has caught.
    process.on('exit', () => {
      waitForCalls(memory)
    })
    calls = memory
  }
  return calls
}

function waitForCalls(memory: CallsMemory): void {
  Atomics.store(memory, EXITS, 1)
  const deadline = performance.now() + EXIT_WAIT_MS
  for (;;) {
    const underWay = Atomics.load(memory, CALLS)
    if (underWay === 0) return
    const leftMs = deadline - performance.now()
    // The first process of a container ignores its own SIGKILL. Then the exit has to wait for the call.
    if (leftMs <= 0 && isMainThread) process.kill(process.pid, 'SIGKILL')
    Atomics.wait(memory, CALLS, underWay, leftMs > 0 ? leftMs : EXIT_WAIT_MS)
  }
}

/** Counts the calls of a driver. Once the process exits, a call does not begin, and its thread stands still. */
export function counted(open: OpenDatabase, memory: CallsMemory): OpenDatabase {
  const call = <T>(run: () => T): T => {
    enter(memory)
    try {
      return run()
    } finally {
      leave(memory)
    }
  }
  return (path) => {
    const database = call(() => open(path))
    return {
      exec: (sql) => {
        call(() => {
          database.exec(sql)
        })
      },
      prepare: (sql) => countedStatement(database, sql, call),
      close: () => {
        call(() => {
          database.close()
        })
      },
    }
  }
}

function countedStatement(
  database: Database,
  sql: string,
  call: <T>(run: () => T) => T,
): Statement {
  const statement = call(() => database.prepare(sql))
  return {
    run: (...values) => call(() => statement.run(...values)),
    get: (...values) => call(() => statement.get(...values)),
    all: (...values) => call(() => statement.all(...values)),
  }
}

function enter(memory: CallsMemory): void {
  Atomics.add(memory, CALLS, 1)
  // Counted first: so the main thread either sees this call, or this thread sees that the process exits.
  if (Atomics.load(memory, EXITS) === 0) return
  leave(memory)
}

function leave(memory: CallsMemory): void {
  Atomics.sub(memory, CALLS, 1)
  if (Atomics.load(memory, EXITS) === 0) return
  Atomics.notify(memory, CALLS)
  Atomics.wait(memory, EXITS, 1) // until the exit ends this thread
}
