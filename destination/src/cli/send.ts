import { randomUUID } from 'node:crypto'
import { Argument, InvalidArgumentError } from 'commander'
import type { HooklineError } from 'hookline'
import { CALL_TYPES, type CallType } from '../model/call.js'
import { changedNumbers } from '../model/changed-numbers.js'
import { COLLECTOR_HELP, findCollector, type CollectorOptions } from './collector.js'
import { CommandError, EXIT, wholeNumber, type AddCommand } from './command.js'
import type { CallOptions } from './send/deliver.js'

interface SendOptions extends CollectorOptions, CallOptions {
  json?: true
}

const EXAMPLES = `
${COLLECTOR_HELP}

Exit codes: 0 accepted, 1 refused, 2 the call is wrong and nothing was sent, 3 no answer: the call may have arrived. It
is safe to send it again with the same --message-id.

Examples:
  $ hookline-destination send track --event 'Order Completed' --user u1 --properties '{"total": 42}'
  $ hookline-destination send identify --user u1 --traits '{"plan": "pro"}' --to https://collect.example.com
  $ hookline-destination send alias --user u1 --previous visitor-7 --json`

export const addSend: AddCommand = (program) => {
  program
    .command('send')
    .description('send one call to a collector, and wait for the result')
    .addArgument(new Argument('<type>', 'type of the call').choices(CALL_TYPES))
    .option('--to <url>', 'the collector')
    .option('-k, --key <key>', 'write key of the source')
    .option('-c, --config <file>', 'settings file that has the key and the address')
    .option('-u, --user <id>', 'userId')
    .option('-a, --anonymous <id>', 'anonymousId')
    .option('-e, --event <name>', 'name of the event, for track')
    .option(
      '--properties <json>',
      'properties, for track, page and screen',
      readObject('properties'),
    )
    .option('--traits <json>', 'traits, for identify and group', readObject('traits'))
    .option('--name <name>', 'name, for page and screen')
    .option('--category <name>', 'category, for page and screen')
    .option('--group <id>', 'groupId, for group')
    .option('--previous <id>', 'previousId, for alias')
    .option('--context <json>', 'context', readObject('context'))
    .option('--integrations <json>', 'which destinations get the call', parseObject)
    .option('--timestamp <iso>', 'when the event happened (default: now)')
    .option('--message-id <id>', 'id by which receivers recognize the call (default: a new one)')
    .option('--timeout <ms>', 'how long to try', wholeNumber(1, 3_600_000), 15_000)
    .option('--json', 'print the outcome as JSON')
    .addHelpText('after', EXAMPLES)
    .action((type: CallType, options: SendOptions) => send(type, options))
}

/** Reads the object of an option. A number that JavaScript cannot hold is reported, and sent with another value. */
function readObject(field: string): (text: string) => object {
  return (text) => {
    const value = parseObject(text)
    for (const { path, message } of changedNumbers(text, field)) {
      console.error(`${path}: ${message}`)
    }
    return value
  }
}

function parseObject(text: string): object {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    throw new InvalidArgumentError(
      `This is not valid JSON. Expected an object in quotes, such as '{"a": 1}'.`,
    )
  }
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value
  throw new InvalidArgumentError(`Expected a JSON object, such as '{"a": 1}'.`)
}

async function send(type: CallType, options: SendOptions): Promise<void> {
  const { key, endpoint } = await findCollector(options)
  const messageId = options.messageId ?? randomUUID()
  const { deliver } = await import('./send/deliver.js')
  const { error, report } = await deliver(type, { ...options, messageId }, key, endpoint)
  if (options.json) {
    const reason = error && { code: error.code, message: explain(error, options) }
    const outcome = { delivered: !error, messageId, attempts: report?.attempts, error: reason }
    console.log(JSON.stringify(outcome))
  } else if (!error) {
    const ms = Math.round(report?.durationMs ?? 0)
    const tries = report?.attempts === 1 ? '' : `, at attempt ${report?.attempts ?? 0}`
    console.log(`Accepted ${messageId}: ${describeCall(type, options)}, in ${ms} ms${tries}.`)
  }
  if (!error) return
  const message = `Not accepted: ${messageId}, ${describeCall(type, options)}.\n${explain(error, options)}`
  const exitCode = error.code === 'rejected' ? EXIT.failed : EXIT.unreachable
  throw new CommandError(exitCode, options.json ? '' : message)
}

/** Why the call was not accepted. The client's own message for a timeout names its method `close`, which nobody called. */
function explain({ code, message }: HooklineError, { timeout }: SendOptions): string {
  if (code !== 'close_timeout') return message
  return `There was no answer within ${timeout} ms. The call may or may not have arrived.`
}

function describeCall(type: CallType, { event, user, anonymous }: SendOptions): string {
  const who = user ?? anonymous
  return [type, event && JSON.stringify(event), who && `of ${who}`].filter(Boolean).join(' ')
}
