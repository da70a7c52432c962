import { takeSignals } from './cli/serve/early-signals.js'

// Nothing else is loaded before this: loading takes a while, and signals do not wait.
takeSignals(process.argv.slice(2))
await import('./main.js')
