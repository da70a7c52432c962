import { parentPort, workerData, type MessagePort } from 'node:worker_threads'
import { serve } from './serve.js'
import type { ThreadData } from './round.js'

await serve(parentPort as MessagePort, workerData as ThreadData)
