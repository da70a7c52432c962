import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { styleText } from 'node:util'
import { InvalidArgumentError } from 'commander'
import { printable } from '../observe/printable.js'
import { formatListen } from '../settings/network.js'
import { shownFile } from '../settings/file.js'
import { SettingsError } from '../settings/settings-error.js'
import { CommandError, EXIT, isColoured, wholeNumber, type AddCommand } from './command.js'
import { readLocalSettings } from './local-settings.js'
import type { Arrival } from './receiver.js'

interface ListenOptions {
  port: number
  host: string
  secret?: string
  config?: string
  status: number[]
  delay: number
  count?: number
  verbose?: true
  json?: true
}

const EXAMPLES = `
Signatures are checked with --secret, with HOOKLINE_SECRET, or with the secrets of the settings in this folder. The first
of these that is given is used. With --count, the exit code is 1 if a signature was wrong or missing.

Examples:
  $ hookline-destination listen                          # with the secrets of the settings in this folder
  $ hookline-destination listen --status 500,500,200     # refuses each message twice, then accepts it
  $ hookline-destination listen --count 1 --json | jq -r .messageId`

export const addListen: AddCommand = (program) => {
  program
    .command('listen')
    .description('receive webhooks on this machine, check their signatures, and print them')
    .option('-p, --port <number>', 'port; 0 picks a free one', wholeNumber(0, 65_535), 4000)
    .option('--host <address>', 'address to listen on', '127.0.0.1')
    .option('-s, --secret <secret>', "the destination's sharedSecret")
    .option('-c, --config <file>', 'settings file that has the secrets')
    .option(
      '--status <codes>',
      'statuses that answer the first, second, … attempt of a message; the last one repeats',
      readStatuses,
      [200],
    )
    .option('--delay <ms>', 'how long to wait before each answer', wholeNumber(0, 3_600_000), 0)
    .option(
      '-n, --count <number>',
      'exit after this number of requests',
      wholeNumber(1, 1_000_000_000),
    )
    .option('-v, --verbose', 'also print the bodies')
    .option('--json', 'print one line of JSON for each request')
    .addHelpText('after', EXAMPLES)
    .action((options: ListenOptions) => listen(options))
}

function readStatuses(text: string): number[] {
  const statuses = text.split(',').map(Number)
  if (statuses.every((status) => Number.isInteger(status) && status >= 200 && status <= 599)) {
    return statuses
  }
  throw new InvalidArgumentError(
    'Expected statuses from 200 to 599, separated by commas, such as 500,500,200.',
  )
}

async function listen(options: ListenOptions): Promise<void> {
  const { secrets, from } = await findSecrets(options)
  const colour = isColoured(process.stdout)
  let left = options.count ?? Infinity
  let unanswered = 0
  let wrong = 0

  const { createReceiver } = await import('./receiver.js')
  const server = createReceiver({
    secrets,
    statuses: options.status,
    delayMs: options.delay,
    onArrival: (arrival) => {
      left--
      unanswered++
      if (arrival.signature === 'missing' || arrival.signature === 'wrong') wrong++
      print(arrival, options, colour)
    },
    onAnswered: () => {
      unanswered--
      if (left > 0 || unanswered > 0) return
      server.close()
      server.closeAllConnections()
    },
  })
  const url = await listening(server, options)
  // Goes to the standard error, so that a pipe gets nothing but the requests.
  console.error(`Listening on ${url}. ${from} Press Ctrl-C to stop.`)
  await new Promise((resolve) => server.once('close', resolve))
  if (wrong > 0) {
    throw new CommandError(EXIT.failed, `Requests with a wrong or missing signature: ${wrong}.`)
  }
}

/** Finds the secrets to check with, and says in a sentence where they come from. */
async function findSecrets({
  secret,
  config,
}: ListenOptions): Promise<{ secrets: string[]; from: string }> {
  const given = secret ?? process.env['HOOKLINE_SECRET']
  if (given) {
    const from = secret === undefined ? 'HOOKLINE_SECRET' : '--secret'
    return { secrets: [given], from: `Signatures are checked with ${from}.` }
  }
  try {
    const local = await readLocalSettings(config)
    const signing = local?.settings.destinations.filter((each) => each.sharedSecret !== undefined)
    const secrets =
      signing?.flatMap((each) => [each.sharedSecret ?? [], each.otherSecret ?? []].flat()) ?? []
    if (local === undefined || secrets.length === 0) return { secrets, from: UNCHECKED }
    const names = signing?.map(({ name }) => name).join(', ')
    return {
      secrets,
      from: `Signatures are checked with the secret of ${names} in ${shownFile(local.file)}.`,
    }
  } catch (error) {
    // The settings may need environment variables that only the service has. Without --config that is no reason to fail.
    if (config !== undefined || !(error instanceof SettingsError)) throw error
    return { secrets: [], from: `${UNCHECKED}\n(${error.message})\n` }
  }
}

const UNCHECKED = 'Signatures are not checked. Give --secret to check them.'

async function listening(server: Server, { host, port }: ListenOptions): Promise<string> {
  await new Promise<void>((resolve, reject) => {
    server.once('error', (error: NodeJS.ErrnoException) => {
      const address = formatListen({ host, port })
      const why =
        error.code === 'EADDRINUSE'
          ? 'another process listens there. Give another --port.'
          : `${error.message}.`
      reject(new CommandError(EXIT.failed, `Could not listen on ${address}: ${why}`))
    })
    server.listen(port, host, resolve)
  })
  return `http://${formatListen({ host, port: (server.address() as AddressInfo).port })}/`
}

function print(arrival: Arrival, { json, verbose }: ListenOptions, colour: boolean): void {
  const { body, ...rest } = arrival
  if (json) console.log(JSON.stringify(verbose ? arrival : rest))
  else console.log(arrivalLine(arrival, colour) + (verbose ? `\n    ${printable(body)}` : ''))
}

const SIGNATURES = {
  ok: ['green', 'signature ok'],
  missing: ['red', 'signature missing'],
  wrong: ['red', 'signature WRONG'],
  unchecked: ['gray', 'signature not checked'],
} as const

/** Describes a request in one line, and in a second one why it would be refused. */
export function arrivalLine(arrival: Arrival, colour: boolean): string {
  const { at, type, event, user, signature, messageId, attempt, bytes, status, reason } = arrival
  const paint = (style: Parameters<typeof styleText>[0], text: string) =>
    colour ? styleText(style, text) : text
  const [style, words] = SIGNATURES[signature]
  const parts = [
    paint('gray', at.slice(11, 19)),
    paint('bold', printable(type ?? '(no type)')) +
      (event === undefined ? '' : ` ${printable(JSON.stringify(event))}`),
    user === undefined ? '' : `user ${printable(user)}`,
    paint(style, words),
    attempt === undefined ? '' : `attempt ${attempt}`,
    `${bytes} bytes`,
    messageId === undefined ? '' : printable(messageId),
    paint(status < 300 ? 'green' : 'yellow', `→ ${status}`),
  ]
  const line = parts.filter((part) => part !== '').join('  ')
  return reason === undefined ? line : `${line}\n    ${printable(reason)}`
}
