import { explainOpenFiles } from './cli/open-files.js'
import { takeSignals } from './cli/serve/early-signals.js'

// Nothing else is loaded before this: loading takes a while, and signals do not wait.
takeSignals(process.argv.slice(2))
try {
  await import('./main.js')
} catch (error) {
  const explained = explainOpenFiles(error)
  if (explained === undefined) throw error
  console.error(explained)
  process.exit(1)
}
