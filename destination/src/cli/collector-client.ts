import { Analytics, OptionError, type AnalyticsOptions, type Callback } from 'hookline'
import type { CallType } from '../model/call.js'
import { localUrl } from '../settings/network.js'
import { CommandError, EXIT } from './command.js'
import { readLocalSettings } from './local-settings.js'

/** The options of commands that make calls. */
export interface CollectorOptions {
  to?: string
  key?: string
  config?: string
}

/** How these options find what is not given, for help texts. */
export const COLLECTOR_HELP = `The write key is --key, else HOOKLINE_WRITE_KEY, else that of the first source of the settings in this folder;
the collector is --to, else ANALYTICS_ENDPOINT, else where these settings listen.`

/** The write key and the collector; `undefined` leaves the collector to the client, which knows its variable. */
export function findCollector({ to, key, config }: CollectorOptions): {
  key: string
  endpoint?: string
} {
  const given = key ?? process.env['HOOKLINE_WRITE_KEY']
  const endpoint = to === undefined ? {} : { endpoint: to }
  if (given && config === undefined) return { key: given, ...endpoint }
  const local = readLocalSettings(config)
  const found = given || local?.settings.sources[0]?.writeKey
  if (!local || !found) {
    throw new CommandError(
      EXIT.usage,
      'There is no write key: give --key, set HOOKLINE_WRITE_KEY, or run this in the folder of the settings.',
    )
  }
  if (to !== undefined || process.env['ANALYTICS_ENDPOINT']) return { key: found, ...endpoint }
  return { key: found, endpoint: localUrl(local.settings.listen) }
}

/** @throws CommandError that speaks of the command's options. */
export function openClient(key: string, options: AnalyticsOptions): Analytics {
  try {
    return new Analytics(key, options)
  } catch (error) {
    if (!(error instanceof OptionError)) throw error
    throw new CommandError(EXIT.usage, error.message.replace(/^endpoint must/, '--to must'))
  }
}

/**
 * Makes a call of any type, with whatever was given for it: what is missing or too much, the client says better than any
 * check here.
 *
 * @throws HooklineError
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
