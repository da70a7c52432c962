import { sharedSecretsOf } from '../model/secrets.js'
import { shownFile } from '../settings/file.js'
import { SettingsError } from '../settings/settings-error.js'
import { CommandError, EXIT, fromEnvironment } from './command.js'
import { readLocalSettings } from './local-settings.js'

/** The options of commands that sign or verify. */
export interface SecretOptions {
  secret?: string
  config?: string
  destination?: string
}

/** Secrets, and a sentence part that says where they come from. */
export interface Secrets {
  secrets: string[]
  from: string
  /** If there are none, what is known about the reason. */
  why?: string
}

const NAME_AND_SECRETS = ['name', 'sharedSecret', 'webhookSecret']

/**
 * Finds the secrets to verify with: that of `--secret`, of `HOOKLINE_SECRET`, or those of the settings.
 *
 * @returns no secrets if there are none.
 * @throws SettingsError if the settings are wrong.
 */
async function findSecrets({ secret, config, destination }: SecretOptions): Promise<Secrets> {
  const given = secret ?? fromEnvironment('HOOKLINE_SECRET')
  if (given !== undefined) {
    return { secrets: [given], from: secret === undefined ? 'HOOKLINE_SECRET' : '--secret' }
  }
  const local = await readLocalSettings(config, ['destinations'], {
    destinations: ({ name }) =>
      destination === undefined || name === destination ? NAME_AND_SECRETS : ['name'],
  })
  const all = local?.settings.destinations ?? []
  const wanted = all.filter(({ name }) => destination === undefined || name === destination)
  if (destination !== undefined && wanted.length === 0) {
    const names = all.map(({ name }) => name).join(', ') || 'none'
    const message = `The settings have no destination ${JSON.stringify(destination)}. They have: ${names}.`
    throw new CommandError(EXIT.usage, message)
  }
  const signing = wanted.filter(({ sharedSecret }) => sharedSecret !== undefined)
  const secrets = signing.flatMap(sharedSecretsOf)
  if (!local) return { secrets, from: '' }
  const file = shownFile(local.file)
  const names = signing.map(({ name }) => name).join(', ')
  const from = `the secret of ${names} in ${file}`
  const isStandard = wanted.some(({ webhookSecrets = [] }) => webhookSecrets.length > 0)
  if (secrets.length > 0 || !isStandard) return { secrets, from }
  const why = `${file} has only webhookSecret, for Standard Webhooks. This command knows only the signatures of sharedSecret.`
  return { secrets, from, why }
}

/**
 * As {@link findSecrets}, for a command that needs a secret.
 *
 * @throws CommandError if there is none.
 */
export async function requireSecrets(options: SecretOptions): Promise<Secrets> {
  const found = await findSecrets(options)
  if (found.secrets.length > 0) return found
  const {
    why = 'Give --secret, set HOOKLINE_SECRET, or run this command in the folder with the settings.',
  } = found
  throw new CommandError(EXIT.usage, `There is no secret. ${why}`)
}

/** As {@link findSecrets}, but settings that are not named with `--config` may be wrong: `why` then says it. */
export async function trySecrets(options: SecretOptions): Promise<Secrets> {
  try {
    return await findSecrets(options)
  } catch (error) {
    // The settings may need environment variables that only the service has. Without --config that is no reason to fail.
    if (options.config !== undefined || !(error instanceof SettingsError)) throw error
    return { secrets: [], from: '', why: `Give --secret to check them.\n(${error.message})\n` }
  }
}
