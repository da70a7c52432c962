import { randomUUID } from 'node:crypto'
import { Argument, InvalidArgumentError } from 'commander'
import type { DeliveredReport, HooklineError } from 'hookline'
import { CALL_TYPES, type CallType } from '../model/call.js'
import { changedNumbers } from '../model/changed-numbers.js'
import { isFields } from '../model/fields.js'
import type { ShownTrace } from '../model/answers.js'
import { printable } from '../observe/printable.js'
import { findAdmin } from './admin-client.js'
import {
  addCollectorOptions,
  COLLECTOR_HELP,
  findCollector,
  type CollectorOptions,
} from './collector.js'
import { CommandError, EXIT, wholeNumber, type AddCommand } from './command.js'
import type { CallOptions } from './send/deliver.js'
import { createLook, untilSettled, type Look } from './send/wait.js'
import { traceLines } from './trace.js'

interface SendOptions extends CollectorOptions, CallOptions {
  wait?: true
  url?: string
  token?: string
  json?: true
}

const EXAMPLES = `
${COLLECTOR_HELP}

With --wait, the command then asks the destination what became of the message, until it is delivered or a dead letter,
and prints each attempt. That needs the admin or the operator token: --token, HOOKLINE_ADMIN_TOKEN, or the adminToken of
the settings in this folder. If the destination can't be asked, nothing is sent.

Exit codes: 0 accepted (with --wait: delivered), 1 refused (with --wait: by the collector or an endpoint), 2 the command line
is wrong and nothing was sent, 3 no answer: the call may have arrived. With --wait, 3 also means that the call was accepted,
and was not delivered in time or its delivery could not be followed. It is safe to send it again with the same --message-id.

Examples:
  $ hookline-destination send track --event 'Order Completed' --user u1 --properties '{"total": 42}'
  $ hookline-destination send identify --user u1 --traits '{"plan": "pro"}' --to https://collect.example.com
  $ hookline-destination send track --event 'Order Completed' --user u1 --wait   # prints what the endpoint answered
  $ hookline-destination send alias --user u1 --previous visitor-7 --json`

export const addSend: AddCommand = (program) => {
  const command = program
    .command('send')
    .description('send one call to a collector, and wait for the result')
    .addArgument(new Argument('<type>', 'type of the call').choices(CALL_TYPES))
  addCollectorOptions(command)
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
    .option('--wait', 'wait until the message is delivered, and print each attempt')
    .option('--url <url>', 'with --wait: URL of the destination (default: from the settings)')
    .option('--token <token>', 'with --wait: its adminToken (default: from the settings)')
    .option('--timeout <ms>', 'how long to try and to wait', wholeNumber(1, 3_600_000), 15_000)
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
  if (isFields(value)) return value
  throw new InvalidArgumentError(`Expected a JSON object, such as '{"a": 1}'.`)
}

async function send(type: CallType, options: SendOptions): Promise<void> {
  const missing = missingFlag(type, options)
  if (missing !== undefined) throw new CommandError(EXIT.usage, `send ${type} needs ${missing}.`)
  const { key, endpoint } = await findCollector(options)
  const messageId = options.messageId ?? randomUUID()
  const look = options.wait && (await openLook(options, messageId, key))
  const endsAt = performance.now() + options.timeout
  const { deliver } = await import('./send/deliver.js')
  const { error, report } = await deliver(type, { ...options, messageId }, key, endpoint)
  const { json } = options
  const print = (outcome: object) => {
    if (json) console.log(JSON.stringify(outcome))
  }
  const sent = { messageId, attempts: report?.attempts }
  if (error) {
    const why = explain(error, options, messageId)
    print({ delivered: false, ...sent, error: { code: error.code, message: why } })
    const call = printable(`${messageId}, ${describeCall(type, options)}`)
    const exitCode = error.code === 'rejected' ? EXIT.failed : EXIT.unreachable
    throw new CommandError(exitCode, json ? '' : `Not accepted: ${call}.\n${why}`)
  }
  if (!json) {
    const call = describeCall(type, options)
    console.log(printable(`Accepted ${messageId}: ${call}${effortOf(report)}.`))
  }
  if (!look) {
    print({ delivered: true, ...sent })
    return
  }
  const { deliveries, now } = await untilSettled(look, endsAt).catch((failed: unknown) => {
    if (!(failed instanceof CommandError)) throw failed
    const message = `Its delivery could not be followed: ${failed.message}`
    print({ delivered: false, ...sent, error: { code: 'not_followed', message } })
    throw new CommandError(EXIT.unreachable, json ? '' : message)
  })
  print({ delivered: deliveries.every(isDelivered), ...sent, deliveries })
  if (!json) console.log(traceLines(deliveries, now).join('\n'))
  requireDelivered(deliveries, options)
}

/**
 * Makes what looks for the message, and makes sure that the destination answers it.
 *
 * @throws CommandError if it does not, before anything is sent.
 */
async function openLook(options: SendOptions, messageId: string, key: string): Promise<Look> {
  const { ask } = await findAdmin(options)
  const look = createLook(ask, messageId, key)
  try {
    await look()
    return look
  } catch (error) {
    if (!(error instanceof CommandError)) throw error
    const { exitCode, message, code } = error
    const isLater = exitCode === EXIT.unreachable
    const text = `${message}\nNothing was sent.`
    throw new CommandError(isLater ? EXIT.unreachable : EXIT.usage, text, code)
  }
}

/** The flag that the call needs and does not have. The client would name the field of the SDK. */
function missingFlag(type: CallType, options: SendOptions): string | undefined {
  const { user, anonymous, event, group, previous } = options
  if (type === 'alias') {
    if (!previous) return '--previous'
    return user ? undefined : '--user'
  }
  if (!user && !anonymous) return '--user or --anonymous'
  if (type === 'track' && !event) return '--event'
  return type === 'group' && !group ? '--group' : undefined
}

/** @throws CommandError unless every destination has the message. The reason is already printed. */
function requireDelivered(deliveries: readonly ShownTrace[], options: SendOptions): void {
  const isLate = deliveries.some(({ dueAt }) => dueAt !== null)
  if (isLate) {
    const isHeld = deliveries.every(({ dueAt, hold }) => dueAt === null || hold !== null)
    const next = isHeld ? ', and no attempt is made.' : '. The destination continues to try.'
    const message = `It was not delivered within ${options.timeout} ms${next}`
    throw new CommandError(EXIT.unreachable, options.json ? '' : message)
  }
  if (!deliveries.every(isDelivered)) throw new CommandError(EXIT.failed, '')
}

function isDelivered({ state }: ShownTrace): boolean {
  return state === 'done'
}

/**
 * Why the call was not accepted, and what to do. The client's own message for a timeout names its method `close`, which nobody called.
 */
function explain(
  { code, message }: HooklineError,
  { timeout }: SendOptions,
  messageId: string,
): string {
  if (code !== 'close_timeout') return message
  const failure = / The last attempt failed: .+$/.exec(message)
  const what = failure
    ? `It was not accepted within ${timeout} ms.${failure[0]}`
    : `There was no answer within ${timeout} ms.`
  const advice = message.includes(' answered 503')
    ? ' The collector takes no calls now: its log and its /readyz say why.'
    : ''
  return `${what} The call may or may not have arrived.${advice} To send it again, add --message-id ${messageId}.`
}

function effortOf(report: DeliveredReport | undefined): string {
  const { durationMs = 0, attempts = 0 } = report ?? {}
  return `, in ${Math.round(durationMs)} ms${attempts === 1 ? '' : `, at attempt ${attempts}`}`
}

function describeCall(type: CallType, { event, user, anonymous }: SendOptions): string {
  const who = user ?? anonymous
  return [type, event && JSON.stringify(event), who && `of ${who}`].filter(Boolean).join(' ')
}
