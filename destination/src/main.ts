import { addListen } from './cli/listen.js'
import { run } from './cli/run.js'
import { addSend } from './cli/send.js'

// Whatever a command left open, it has ended.
process.exit(await run(process.argv.slice(2), [addListen, addSend]))
