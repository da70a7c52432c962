import { HooklineError, type DeliveredReport } from 'hookline'
import type { CallType } from '../../model/call.js'
import { makeCall, openClient } from '../collector-client.js'
import { CommandError, EXIT } from '../command.js'

/** The client retries more often by default. A person who waits at a terminal wants the error sooner. */
const MAX_RETRIES = 3

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
    maxRetries: MAX_RETRIES,
    timeout: options.timeout,
    onDelivered: (delivered) => (report = delivered),
    onFailed: (failed) => (error = failed.error),
  })
  try {
    makeCall(analytics, type, messageOf(options))
  } catch (refused) {
    if (refused instanceof HooklineError) throw new CommandError(EXIT.usage, refused.message)
    throw refused
  }
  await analytics.close({ timeout: options.timeout })
  return { ...(error && { error }), ...(report && { report }) }
}

/** The fields of the call that were given on the command line. */
function messageOf(options: CallOptions): Record<string, unknown> {
  const { user, anonymous, event, group, previous, name, category, properties, traits } = options
  const { context, integrations, timestamp, messageId } = options
  const given = {
    userId: user,
    anonymousId: anonymous,
    event,
    groupId: group,
    previousId: previous,
  }
  const fields = { name, category, properties, traits, context, integrations, timestamp, messageId }
  return Object.fromEntries(
    Object.entries({ ...given, ...fields }).filter(([, value]) => value !== undefined),
  )
}
