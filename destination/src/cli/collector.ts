import type { Command } from 'commander'
import type { Needs } from '../settings/check.js'
import { localUrl } from '../settings/network.js'
import type { Settings } from '../settings/settings.js'
import { CommandError, EXIT, fromEnvironment } from './command.js'
import { readLocalSettings } from './local-settings.js'

/** The options of commands that make calls. */
export interface CollectorOptions {
  to?: string
  key?: string
  config?: string
}

/** Adds the options that say where the collector and the write key come from. */
export function addCollectorOptions(command: Command): Command {
  return command
    .option('--to <url>', 'the collector')
    .option('-k, --key <key>', 'write key of the source')
    .option('-c, --config <file>', 'settings file that has the key and the address')
}

/** Says in help texts where the write key and the collector come from. */
export const COLLECTOR_HELP = `The write key is taken from --key, from HOOKLINE_WRITE_KEY, or from the first source of the settings in this folder.
The collector is taken from --to, from ANALYTICS_ENDPOINT, or from the listen address of these settings. For
both, the first of these that is given is used.`

const FIRST_KEY: Needs = { sources: (_source, index) => (index === 0 ? ['writeKey'] : []) }

/**
 * Finds the write key and the collector.
 *
 * @returns no endpoint if `ANALYTICS_ENDPOINT` has it: the client reads this variable itself.
 * @throws CommandError if there is no write key; SettingsError if the settings are wrong.
 */
export async function findCollector({
  to,
  key,
  config,
}: CollectorOptions): Promise<{ key: string; endpoint?: string }> {
  const given = key ?? fromEnvironment('HOOKLINE_WRITE_KEY')
  const isNamed = to !== undefined || Boolean(process.env['ANALYTICS_ENDPOINT'])
  const needed = [
    ...(given === undefined ? (['sources'] as const) : []),
    ...(isNamed ? [] : (['listen'] as const)),
  ]
  const local = needed.length === 0 ? undefined : await readLocalSettings(config, needed, FIRST_KEY)
  const { sources, listen } = (local?.settings ?? {}) as Partial<Settings>
  const found = given ?? sources?.[0]?.writeKey
  if (!found) {
    const where = local
      ? 'The settings in this folder have no source. Give --key, or set HOOKLINE_WRITE_KEY.'
      : 'Give --key, set HOOKLINE_WRITE_KEY, or run this command in the folder with the settings.'
    throw new CommandError(EXIT.usage, `There is no write key. ${where}`)
  }
  const endpoint = to ?? (listen && localUrl(listen))
  return { key: found, ...(endpoint !== undefined && { endpoint }) }
}
