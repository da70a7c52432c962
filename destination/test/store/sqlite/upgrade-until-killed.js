// Opens a store, and prints a line when the file begins to be upgraded, and one when the store is open. Then it waits to be
// killed.
// Usage: node upgrade-until-killed.js COMPILED_DIR STORE_URL
import { writeSync } from 'node:fs'

const [, , compiledDir, url] = process.argv
const { openStore } = await import(`${compiledDir}/store/open.js`)
await openStore(url, { upgrading: () => writeSync(1, 'upgrading\n') })
writeSync(1, 'open\n')
