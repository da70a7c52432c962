import { spawn, type ChildProcessByStdio } from 'node:child_process'
import { once } from 'node:events'
import type { Socket } from 'node:net'
import type { Readable, Writable } from 'node:stream'
import { stripVTControlCharacters } from 'node:util'
import { mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { inject } from 'vitest'

const MAIN = join(inject('compiledDir'), 'command-line/start.js')

/** A process that has ended. */
export interface Ended {
  code: number | null
  stdout: string
  stderr: string
}

/** A running process. */
export interface Running {
  pid: number
  kill(signal: NodeJS.Signals): void
  /** Ends the standard input with a text. */
  end(text: string): void
  /** Waits for the first match in the output of either stream. Rejects if the process ends without a match. */
  printed(pattern: RegExp): Promise<RegExpExecArray>
  ended: Promise<Ended>
}

/** An empty folder to run in. */
export const emptyFolder = () => mkdtempSync(join(tmpdir(), 'hookline-cli-'))

/** Makes a folder with a settings file. A text is written as it is, and anything else as JSON. */
export function folderWith(settings: unknown): string {
  const folder = emptyFolder()
  const text = typeof settings === 'string' ? settings : JSON.stringify(settings)
  writeFileSync(join(folder, 'hookline.config.json'), text)
  return folder
}

interface Surroundings {
  folder?: string
  env?: Record<string, string>
  /** Text for the standard input, which then stays open. Without it there is no input. */
  input?: string
  /** A descriptor or a socket for the standard output. Then nothing of it is collected. */
  stdout?: number | Socket
}

/** Starts the command line in a folder. Of this environment it gets only `PATH`, so that no variable changes a test. */
export function start(
  args: string[],
  { folder = emptyFolder(), env = {}, input, stdout }: Surroundings = {},
): Running {
  const child = spawn(process.execPath, [MAIN, ...args], {
    cwd: folder,
    env: { PATH: process.env['PATH'], ...env },
    stdio: [input === undefined ? 'ignore' : 'pipe', stdout ?? 'pipe', 'pipe'],
  }) as ChildProcessByStdio<Writable | null, Readable | null, Readable>
  child.stdin?.write(input)
  const output = { stdout: '', stderr: '' }
  const watchers = new Set<() => void>()
  for (const stream of ['stdout', 'stderr'] as const) {
    child[stream]?.setEncoding('utf8').on('data', (text: string) => {
      output[stream] += text
      for (const watch of watchers) watch()
    })
  }
  const ended = new Promise<Ended>((resolve) => {
    child.once('close', (code) => {
      resolve({ code, ...output })
      for (const watch of watchers) watch()
    })
  })
  const printed = (pattern: RegExp) =>
    new Promise<RegExpExecArray>((resolve, reject) => {
      const watch = () => {
        const match = pattern.exec(output.stdout) ?? pattern.exec(output.stderr)
        if (!match) return
        watchers.delete(watch)
        resolve(match)
      }
      watchers.add(watch)
      watch()
      void ended.then(() => {
        reject(new Error(`it ended without ${pattern.source}: ${output.stdout}${output.stderr}`))
      })
    })
  // The process has an id here, because a process that cannot be started throws above.
  return {
    pid: child.pid as number,
    kill: (signal) => child.kill(signal),
    end: (text) => child.stdin?.end(text),
    printed,
    ended,
  }
}

/** Runs the command line to its end. */
export const run = (...given: Parameters<typeof start>): Promise<Ended> => start(...given).ended

/** Starts the command line on a terminal, where it may ask. What it prints on either stream comes together. */
export function startOnTerminal(args: string[], env: Record<string, string>) {
  const command = [process.execPath, MAIN, ...args].map((arg) => `'${arg}'`).join(' ')
  const child = spawn('script', ['-qec', command, '/dev/null'], {
    cwd: emptyFolder(),
    env: { PATH: process.env['PATH'], ...env },
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  let output = ''
  let seen = 0
  child.stdout.setEncoding('utf8').on('data', (text: string) => (output += text))
  return {
    /** Waits for a match in what was printed since the last match. */
    async printed(pattern: RegExp): Promise<void> {
      while (!pattern.test(stripVTControlCharacters(output.slice(seen))))
        await once(child.stdout, 'data')
      seen = output.length
    },
    type: (text: string) => child.stdin.write(`${text}\n`),
    ended: once(child, 'close').then(() => stripVTControlCharacters(output)),
  }
}
