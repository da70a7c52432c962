// Starts a collector on a free port for one test, records its calls, and sends requests of raw bytes.
import { once } from 'node:events'
import { connect } from 'node:net'
import { onTestFinished } from 'vitest'
import { webhookBody } from '../../src/enqueue/webhook-body.js'
import type { Call } from '../../src/model/call.js'
import { tellAll } from '../../src/observe/events.js'
import { logLines } from '../../src/observe/log-lines.js'
import { silent } from '../run.js'
import {
  createCollector,
  type Collector,
  type CollectorOptions,
} from '../../src/collect/collector.js'

export interface Started {
  readonly url: string
  readonly port: number
  readonly collector: Collector
  /** The accepted calls. Each entry is one request. */
  readonly accepted: { source: string; calls: Call[] }[]
  /** The messages of the log. */
  readonly logged: string[]
  /** The counted events: `source answer` for a request, and `source answer count` for its calls. */
  readonly counted: string[]
  /** Accepts or rejects the calls of the next requests. By default it accepts them at once. */
  accept: (source: string, calls: Call[]) => Promise<void>
}

export const KEY = 'WEB_KEY'
export const AUTHORIZATION = `Basic ${Buffer.from(`${KEY}:`).toString('base64')}`

export async function startCollector(options: Partial<CollectorOptions> = {}): Promise<Started> {
  const counted: string[] = []
  const logged: string[] = []
  const log = (_details: object, message: string) => logged.push(message)
  const accepted: Started['accepted'] = []
  const collector = await createCollector({
    enqueueCalls: async (source, calls) => {
      await started.accept(source, calls)
      accepted.push({ source, calls })
    },
    forwarding: { isForwarded: () => true, bodyOf: webhookBody },
    settings: {
      tenants: [],
      sources: [
        { name: 'web', writeKey: KEY },
        { name: 'app', writeKey: 'APP_KEY' },
      ],
    },
    waiting: { overLimit: () => undefined },
    log: { warn: log, error: log },
    events: tellAll([
      {
        requestAnswered: (source, answer) => counted.push(`${source} ${answer}`),
        numbersChanged: (source, count) => counted.push(`${source} numbers ${count}`),
        callsCounted: (source, answer, count) => counted.push(`${source} ${answer} ${count}`),
      },
      logLines({ ...silent, warn: log, error: log }),
    ]),
    ...options,
  })
  onTestFinished(() => collector.close(0))
  const url = await collector.listen('127.0.0.1', 0)
  const port = Number(new URL(url).port)
  const started: Started = {
    url,
    port,
    collector,
    accepted,
    logged,
    counted,
    accept: () => Promise.resolve(),
  }
  return started
}

/** Sends bytes as they are, and returns everything that arrives until the connection ends. */
export async function exchange(port: number, ...parts: (string | Buffer)[]): Promise<string> {
  const socket = connect(port, '127.0.0.1')
  let text = ''
  socket.on('data', (chunk: Buffer) => {
    text += chunk.toString()
  })
  for (const part of parts) socket.write(part)
  await once(socket, 'close')
  return text
}
