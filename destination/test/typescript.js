import { existsSync } from 'node:fs'
import { isMainThread } from 'node:worker_threads'

// For threads that run the sources: before Node 22, `--import tsx` leaves threads out. One whose file is there runs
// JavaScript, and needs no help.
if (!isMainThread && !existsSync(process.argv[1] ?? '')) {
  const { register } = await import('tsx/esm/api')
  register()
}
