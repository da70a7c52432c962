import { HooklineError, ValidationError, type DeliveredReport } from 'hookline'
import type { CallType } from '../../model/call.js'
import { makeCall, openClient } from '../collector-client.js'
import { CommandError, EXIT } from '../command.js'

/** In ms. A request ends later than the command, so that the end of the command is never the timeout of the request. */
const LATER_MS = 1_000

/** The options of the command line that make up the call, and how long to try, in ms. */
export interface CallOptions {
  user?: string
  anonymous?: string
  event?: string
  name?: string
  category?: string
  group?: string
  previous?: string
  properties?: object
  traits?: object
  context?: object
  integrations?: object
  timestamp?: string
  messageId?: string
  timeout: number
}

/** Sends one call with the client. The result has an error if the call was not accepted, else the report. */
export async function deliver(
  type: CallType,
  options: CallOptions,
  key: string,
  endpoint: string | undefined,
): Promise<{ error?: HooklineError; report?: DeliveredReport }> {
  let error: HooklineError | undefined
  let report: DeliveredReport | undefined
  const analytics = openClient(key, {
    endpoint,
    flushAt: 1,
    timeout: options.timeout + LATER_MS,
    onDelivered: (delivered) => (report = delivered),
    onFailed: (failed) => (error = failed.error),
  })
  try {
    makeCall(analytics, type, messageOf(options))
  } catch (refused) {
    if (!(refused instanceof HooklineError)) throw refused
    throw new CommandError(EXIT.usage, inFlags(type, refused))
  }
  await analytics.close({ timeout: options.timeout })
  return { ...(error && { error }), ...(report && { report }) }
}

/** The flags of the fields that have another name. */
const FLAGS: Readonly<Record<string, string>> = {
  userId: '--user',
  anonymousId: '--anonymous',
  groupId: '--group',
  previousId: '--previous',
  messageId: '--message-id',
}

/** The message of an error with the flags of the command line in place of the fields of the client. */
function inFlags(type: CallType, error: HooklineError): string {
  if (!(error instanceof ValidationError)) return error.message
  const [field = ''] = error.field.split('.')
  const flag = FLAGS[field] ?? `--${field}`
  if (error.message.startsWith(`${type}() has no field`)) return `send ${type} takes no ${flag}.`
  return error.message
    .replace(`${type}() needs ${field} to be`, `${flag} must be`)
    .replace('a Date or an ISO', 'an ISO')
    .replace(`${type}() takes traits or properties`, `send ${type} takes --traits or --properties`)
}

/** The fields of the call that were given on the command line. */
function messageOf(options: CallOptions): Record<string, unknown> {
  const { user, anonymous, event, group, previous, name, category, properties, traits } = options
  const { context, integrations, timestamp, messageId } = options
  const fields = {
    userId: user,
    anonymousId: anonymous,
    event,
    groupId: group,
    previousId: previous,
    name,
    category,
    properties,
    traits,
    context,
    integrations,
    timestamp,
    messageId,
  }
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined))
}
