import { fstatSync, writeSync } from 'node:fs'
import { setImmediate } from 'node:timers/promises'
import { EXIT } from './command.js'

let isStream = false

/** For a command that prints until it is stopped: when its reader has enough and ends, the command has done its work. */
export function endWithReader(): void {
  isStream = true
}

/**
 * Ends the process if the standard output cannot be written: quietly if its reader has ended, as in `listen | head -3`,
 * and else with an error.
 *
 * @returns a function that waits until everything is written. It takes and returns the exit code of the command.
 */
export function watchOutput(): (code: number) => Promise<number> {
  const { stdout } = process
  let ended: number | undefined
  stdout.on('error', ({ code, message }: NodeJS.ErrnoException) => {
    if (code === 'EPIPE') process.exit(ended ?? (isStream ? EXIT.ok : EXIT.failed))
    const why = message.replace(/, write$/, '')
    const rest = ended === EXIT.ok ? ' Apart from its output, the command succeeded.' : ''
    console.error(`Cannot write the output: ${why}.${rest}`)
    process.exit(EXIT.failed)
  })
  const kind = fstatSync(1)
  if (kind.isFile() || (kind.isCharacterDevice() && !stdout.isTTY)) {
    // Node takes no notice of a disk that gets full and takes only a part of a write. It also writes what is empty, which
    // fails on a full disk, and `serve`, which writes its log itself, has no other output.
    stdout._write = (chunk: Buffer, _encoding, done) => {
      try {
        for (let at = 0; at < chunk.length;) at += writeSync(1, chunk, at)
        done()
      } catch (error) {
        done(error as Error)
      }
    }
  }
  return async (code) => {
    ended = code
    await new Promise((resolve) => stdout.write('', resolve))
    await setImmediate() // the event of an error comes after the callback of the write
    return code
  }
}
