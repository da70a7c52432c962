import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { compiledDir } from '../compiled.js'

/** What a process with a store says: it has opened it, or what was acknowledged. */
export interface Said {
  open?: boolean
  put?: string[]
  settled?: string[]
}

/** Starts a process that has a store; calls back with each line that it says. */
export function startChild(url: string, run: string, hear: (said: Said) => void, idle = false) {
  const script = join(import.meta.dirname, 'put-under-load.js')
  const args = [script, compiledDir, url, run, ...(idle ? ['--idle'] : [])]
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] })
  const lines = createInterface({ input: child.stdout })
  lines.on('line', (line) => {
    // The last line may be cut off.
    if (line.endsWith('}')) hear(JSON.parse(line) as Said)
  })
  return { kill: () => kill(child, once(lines, 'close')) }
}

/** As the kernel does when there is no memory: no handler runs. */
async function kill(child: ChildProcess, closed: Promise<unknown>): Promise<void> {
  child.kill('SIGKILL')
  await closed
}
