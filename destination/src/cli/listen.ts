import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { styleText } from 'node:util'
import { InvalidArgumentError } from 'commander'
import { printable } from '../observe/printable.js'
import { formatListen } from '../settings/network.js'
import { shownFile } from '../settings/read.js'
import { SettingsError } from '../settings/settings-error.js'
import { CommandError, EXIT, isColoured, wholeNumber, type AddCommand } from './command.js'
import { readLocalSettings } from './local-settings.js'
import { createReceiver, type Arrival } from './receiver.js'

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
Signatures are checked with --secret, else with HOOKLINE_SECRET, else with the secrets of the settings in
this folder. With --count, the exit code is 1 if one of them did not hold.

Examples:
  $ hookline-destination listen                          # beside a service in this folder
  $ hookline-destination listen --status 500,500,200     # each message is refused twice, then taken
  $ hookline-destination listen --count 1 --json | jq -r .messageId`

export const addListen: AddCommand = (program) => {
  program
    .command('listen')
    .description('receive webhooks here, and print each with whether its signature holds')
    .option('-p, --port <number>', 'port; 0 takes a free one', wholeNumber(0, 65_535), 4000)
    .option('--host <address>', 'address to listen on', '127.0.0.1')
    .option('-s, --secret <secret>', "the destination's sharedSecret")
    .option('-c, --config <file>', 'settings that have the secrets')
    .option(
      '--status <codes>',
      'statuses to answer the attempts of a message with, in turn; the last one stays',
      readStatuses,
      [200],
    )
    .option('--delay <ms>', 'how long each answer waits', wholeNumber(0, 3_600_000), 0)
    .option('-n, --count <number>', 'exit after so many requests', wholeNumber(1, 1_000_000_000))
    .option('-v, --verbose', 'print the bodies too')
    .option('--json', 'print a line of JSON for each request')
    .addHelpText('after', EXAMPLES)
    .action((options: ListenOptions) => listen(options))
}

function readStatuses(text: string): number[] {
  const statuses = text.split(',').map(Number)
  if (statuses.every((status) => Number.isInteger(status) && status >= 200 && status <= 599)) {
    return statuses
  }
  throw new InvalidArgumentError(
    'Expected statuses from 200 to 599 with commas, such as 500,500,200.',
  )
}

async function listen(options: ListenOptions): Promise<void> {
  const { secrets, from } = findSecrets(options)
  const colour = isColoured(process.stdout)
  let left = options.count ?? Infinity
  let unanswered = 0
  let wrong = 0

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
  // Beside what arrives, so that a pipe gets that alone.
  console.error(`Listening on ${url}. ${from} Ctrl-C stops.`)
  await new Promise((resolve) => server.once('close', resolve))
  if (wrong > 0) throw new CommandError(EXIT.failed, `Of the signatures, ${wrong} did not hold.`)
}

/** The secrets to check with, and a sentence that says where they are from. */
function findSecrets({ secret, config }: ListenOptions): { secrets: string[]; from: string } {
  const given = secret ?? process.env['HOOKLINE_SECRET']
  if (given) {
    const from = secret === undefined ? 'HOOKLINE_SECRET' : '--secret'
    return { secrets: [given], from: `Signatures are checked with ${from}.` }
  }
  try {
    const local = readLocalSettings(config)
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
    // Of a service that has its environment elsewhere; unless it was asked for, listening comes first.
    if (config !== undefined || !(error instanceof SettingsError)) throw error
    return { secrets: [], from: `${UNCHECKED}\n(${error.message})\n` }
  }
}

const UNCHECKED = 'Signatures are not checked: give --secret.'

async function listening(server: Server, { host, port }: ListenOptions): Promise<string> {
  await new Promise<void>((resolve, reject) => {
    server.once('error', (error: NodeJS.ErrnoException) => {
      const address = formatListen({ host, port })
      const why =
        error.code === 'EADDRINUSE'
          ? 'something listens there already. Give another --port.'
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

/** A request in one line, and in a second one why it would be refused. */
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
