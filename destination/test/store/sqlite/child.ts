import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { inject } from 'vitest'

/** A line of the process: the store is open, or these ids were acknowledged. */
export interface Said {
  open?: boolean
  put?: string[]
  settled?: string[]
}

/** Starts a process that opens a store, and calls `hear` with each line that it prints. */
export function startChild(url: string, run: string, hear: (said: Said) => void, idle = false) {
  const script = join(import.meta.dirname, 'put-under-load.js')
  const args = [script, inject('compiledDir'), url, run, ...(idle ? ['--idle'] : [])]
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] })
  const lines = createInterface({ input: child.stdout })
  lines.on('line', (line) => {
    // The kill may cut off the last line.
    if (line.endsWith('}')) hear(JSON.parse(line) as Said)
  })
  return { kill: () => kill(child, once(lines, 'close')) }
}

/** SIGKILL, as the kernel sends it when memory runs out: no handler of the process runs. */
async function kill(child: ChildProcess, closed: Promise<unknown>): Promise<void> {
  child.kill('SIGKILL')
  await closed
}
