import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { InvalidArgumentError } from 'commander'
import { formatListen } from '../settings/network.js'
import { CommandError, EXIT, isColoured, wholeNumber, type AddCommand } from './command.js'
import { addFilterOptions, isMatch, type MessageFilter } from './filter.js'
import type { Arrival } from './listen/receiver.js'
import { endWithReader } from './output.js'
import { trySecrets, type SecretOptions, type Secrets } from './secrets.js'
import { createColumns } from './table.js'

interface ListenOptions extends MessageFilter, Pick<SecretOptions, 'secret' | 'config'> {
  port: number
  host: string
  status: number[]
  forwardTo?: string
  delay: number
  count?: number
  verbose?: true
  json?: true
}

const EXAMPLES = `
Signatures are checked with --secret, with HOOKLINE_SECRET, or with the secrets of the settings in this folder. The first
of these that is given is used. A request whose X-Signature is wrong or missing is answered with 401, as a receiver should,
unless --status or --forward-to says how to answer. With --count, the exit code is 1 if a signature was wrong or missing.

A request is printed when its answer has been sent, or when the sender has hung up before.

With --forward-to, each request goes on to your own receiver with its headers and its exact bytes, and the answer of the
receiver goes back with its headers. With --type, --event or --user, all other requests are answered with 200, and are
not printed, forwarded or counted.

Examples:
  $ hookline-destination listen                          # with the secrets of the settings in this folder
  $ hookline-destination listen --status 500,500,200     # refuses each message twice, then accepts it
  $ hookline-destination listen --forward-to http://127.0.0.1:8080/webhook --event 'Order Completed'
  $ hookline-destination listen --count 1 --json | jq -r .messageId`

const DEFAULT_STATUSES = [200]

export const addListen: AddCommand = (program) => {
  const command = program
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
      DEFAULT_STATUSES,
    )
    .option(
      '--forward-to <url>',
      'send each request on to this URL, and answer as it does',
      readUrl,
    )
    .option('--delay <ms>', 'how long to wait before each answer', wholeNumber(0, 3_600_000), 0)
  addFilterOptions(command)
    .option(
      '-n, --count <number>',
      'exit after this number of requests',
      wholeNumber(1, 1_000_000_000),
    )
    .option('-v, --verbose', 'also print the bodies, with one field in each line')
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

function readUrl(text: string): string {
  if (/^https?:\/\//i.test(text) && URL.canParse(text)) return text
  throw new InvalidArgumentError('Expected a full URL, such as http://127.0.0.1:8080/webhook.')
}

async function listen(options: ListenOptions): Promise<void> {
  endWithReader()
  const found = await trySecrets(options)
  const answer = await answererOf(options)
  const print = await createPrinter(options, isColoured(process.stdout))
  let wrong = 0

  const { createReceiver, isRefused } = await import('./listen/receiver.js')
  const server = createReceiver({
    secrets: found.secrets,
    answer,
    isWanted: (arrival) => isMatch(options, arrival),
    delayMs: options.delay,
    count: options.count ?? Infinity,
    onArrival: (arrival) => {
      if (isRefused(arrival.signature)) wrong++
      print(arrival)
    },
  })
  const url = await listening(server, options)
  // Goes to the standard error, so that a pipe gets nothing but the requests.
  console.error(`Listening on ${url}. ${describeSecrets(found)} Press Ctrl-C to stop.`)
  await new Promise((resolve) => server.once('close', resolve))
  if (wrong === 0) return
  console.error(`Requests with a wrong or missing signature: ${wrong}.`)
  throw new CommandError(EXIT.failed, '')
}

async function answererOf({ forwardTo: url, status }: ListenOptions) {
  if (url === undefined) {
    const { byScript, refuseUnsigned } = await import('./listen/receiver.js')
    const answer = byScript(status)
    return status === DEFAULT_STATUSES ? refuseUnsigned(answer) : answer
  }
  if (status !== DEFAULT_STATUSES) {
    throw new CommandError(EXIT.usage, 'Give --forward-to or --status: the receiver there answers.')
  }
  const { forwardTo } = await import('./listen/forward.js')
  return forwardTo(url)
}

function describeSecrets({ secrets, from, why = 'Give --secret to check them.' }: Secrets): string {
  return secrets.length > 0
    ? `Signatures are checked with ${from}.`
    : `Signatures are not checked. ${why}`
}

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

async function createPrinter({ json, verbose }: ListenOptions, colour: boolean) {
  const { arrivalLines, bodyLines, COLUMN_WIDTHS } = await import('./listen/show.js')
  const columns = createColumns(COLUMN_WIDTHS)
  return (arrival: Arrival) => {
    const { body, ...rest } = arrival
    if (json) {
      console.log(JSON.stringify(verbose ? arrival : rest))
      return
    }
    const lines = arrivalLines(arrival, columns, colour)
    console.log([...lines, ...(verbose ? bodyLines(body) : [])].join('\n'))
  }
}
