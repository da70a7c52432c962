import { InvalidArgumentError, Option } from 'commander'
import type { TestedEndpoint, TestedSample, TestReport } from '../model/answers.js'
import { EVENT_TYPES, type EventType } from '../model/call.js'
import { printable } from '../observe/printable.js'
import { addAdminOptions, findAdmin, pathOf, type AdminOptions } from './admin-client.js'
import { CommandError, EXIT, isColoured, paint, severalTimes, type AddCommand } from './command.js'

interface TestOptions extends AdminOptions {
  type?: EventType[]
  json?: true
}

const EXAMPLES = `
Asks a running destination to send one sample of each type to each endpoint of DESTINATION, also if it is disabled. It
prints for each sample what the endpoint answered, and what to do about it. Nothing is stored. Each request has the header
X-Hookline-Test: true and a message id that starts with hookline-test-. The command needs the admin or the operator token. It exits with 1 if
an endpoint did not accept a sample, and with 3 if the destination does not answer.

Examples:
  $ hookline-destination test crm
  $ hookline-destination test crm --type track --type delete
  $ hookline-destination test crm --json | jq '.endpoints[].samples[] | {type, status, ms, request}'`

export const addTest: AddCommand = (program) => {
  const command = program
    .command('test')
    .description('send samples to a destination, and show each answer')
    .argument('<destination>', 'name of the destination')
    .addOption(
      new Option('-t, --type <type>', 'only this type, or several with one --type each')
        .choices(EVENT_TYPES)
        .argParser(severalTimes(readType)),
    )
  addAdminOptions(command)
    .option('--json', 'print JSON, with the requests')
    .addHelpText('after', EXAMPLES)
    .action((destination: string, options: TestOptions) => test(destination, options))
}

/** @param before - The types of the options before this one: commander calls this once per option. */
function readType(text: string, before: EventType[] | undefined): EventType[] {
  const type = EVENT_TYPES.find((one) => one === text)
  if (type !== undefined) return [...(before ?? []), type]
  throw new InvalidArgumentError(`Expected one of ${EVENT_TYPES.join(', ')}.`)
}

async function test(destination: string, { type: types, json, ...where }: TestOptions) {
  const { ask } = await findAdmin(where)
  const fixes = { test_running: 'Run the command again then.' }
  const path = pathOf('destination', destination, '/test')
  const report = (await ask(path, { types }, { fixes })) as TestReport
  if (json) console.log(JSON.stringify(report, null, 2))
  else console.log(linesOf(report, isColoured(process.stdout)).join('\n'))
  if (!report.ok) throw new CommandError(EXIT.failed, '')
}

function linesOf(report: TestReport, colour: boolean): string[] {
  const { destination, enabled, ok, endpoints } = report
  const end = ok
    ? `Each endpoint of ${destination} accepts these messages.`
    : `Not every endpoint of ${destination} accepts these messages.`
  const note = enabled ? '' : ' The destination is disabled, so it gets only tests.'
  return [...endpoints.flatMap((one) => [...endpointLines(one, colour), '']), `${end}${note}`]
}

function endpointLines({ url, samples }: TestedEndpoint, colour: boolean): string[] {
  const signed = samples.find(({ request }) => request !== null)?.request?.signed
  const how =
    signed === undefined
      ? []
      : signed.length === 0
        ? ['  not signed']
        : signed.map((one) => `  ${one}`)
  let before: TestedSample | undefined
  return [
    printable(url),
    ...how,
    ...samples.flatMap((sample) => {
      const lines = sampleLines(sample, before, colour)
      before = sample
      return lines
    }),
  ]
}

const STATES = {
  delivered: ['green', 'ok'],
  retry: ['red', 'failed'],
  refused: ['red', 'failed'],
  not_sent: ['gray', '-'],
} as const

/** In characters: how much of an answer is printed. */
const SHOWN = 200

/** One line for a sample, and more for what is wrong unless it is the same as before. */
function sampleLines(
  sample: TestedSample,
  before: TestedSample | undefined,
  colour: boolean,
): string[] {
  const { type, verdict, status, code, ms, found, fix, response } = sample
  const [style, word] = STATES[verdict]
  const padded = word.padEnd(6)
  const answer = status ?? code ?? 'not sent'
  const time = ms === null ? '' : `  (${ms} ms)`
  const line = `  ${colour ? paint(style, padded) : padded}  ${type.padEnd(8)}  ${answer}${time}`
  const isSame = before?.found === found && before.fix === fix && before.response === response
  if (verdict === 'delivered' || isSame) return [line]
  const more = [
    found,
    ...(response === '' ? [] : [`It answered: ${response.slice(0, SHOWN)}`]),
    ...(fix === null ? [] : [fix]),
  ]
  return [line, ...more.map((text) => `${' '.repeat(20)}${printable(text)}`)]
}
