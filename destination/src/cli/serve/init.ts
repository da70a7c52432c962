import { randomBytes } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { exampleSettings } from '../../settings/example.js'
import { CommandError, EXIT } from '../command.js'

/** Writes settings to start from, and says what to do with them. */
export function init(file: string): void {
  if (!file.endsWith('.json')) {
    throw new CommandError(
      EXIT.usage,
      `--init writes JSON: give --config a name that ends in .json.`,
    )
  }
  const secret = () => randomBytes(16).toString('hex')
  try {
    // Other users must not read the secrets in it. An existing file is never overwritten.
    writeFileSync(file, exampleSettings(secret(), secret()), { flag: 'wx', mode: 0o600 })
  } catch (error) {
    const isThere = (error as NodeJS.ErrnoException).code === 'EEXIST'
    const why = isThere ? 'it is there already. Leave out --init to run by it.' : String(error)
    throw new CommandError(EXIT.usage, `Could not write ${file}: ${why}`)
  }
  console.error(`Wrote ${file}, with a new write key and shared secret. ${NEXT}`)
}

const NEXT = `What it collects is forwarded to
http://127.0.0.1:4000/, signed. In two other terminals, in this folder, run

  npx hookline-destination listen
  npx hookline-destination send track --event 'Order Completed' --user u1
`
