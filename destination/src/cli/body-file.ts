import { readFile } from 'node:fs/promises'
import { buffer } from 'node:stream/consumers'
import { CommandError, EXIT } from './command.js'

/**
 * Reads a body exactly as it is in a file, because a signature is one of its bytes.
 *
 * @param file - `-` reads the standard input.
 * @throws CommandError if the file can't be read.
 */
export async function readBody(file: string): Promise<Buffer> {
  if (file === '-') return buffer(process.stdin)
  try {
    return await readFile(file)
  } catch (error) {
    throw new CommandError(EXIT.usage, `Cannot read ${file}: ${(error as Error).message}`)
  }
}
