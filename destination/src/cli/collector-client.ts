import { Analytics, OptionError, type AnalyticsOptions, type Callback } from 'hookline'
import type { CallType } from '../model/call.js'
import { CommandError, EXIT } from './command.js'

/**
 * Opens a client.
 *
 * @throws CommandError if an option of the client is wrong. The message names the option of the command line.
 */
export function openClient(key: string, options: AnalyticsOptions): Analytics {
  try {
    return new Analytics(key, options)
  } catch (error) {
    if (!(error instanceof OptionError)) throw error
    throw new CommandError(EXIT.usage, error.message.replace(/^endpoint must/, '--to must'))
  }
}

/**
 * Makes a call of any type. The message is not checked here, because the client checks it and explains what is wrong.
 *
 * @throws HooklineError if the message is wrong.
 */
export function makeCall(
  analytics: Analytics,
  type: CallType,
  message: unknown,
  callback?: Callback,
): void {
  const client = analytics as Record<CallType, (message: never, callback?: Callback) => void>
  client[type](message as never, callback)
}
