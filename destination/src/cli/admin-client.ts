import type { Command } from 'commander'
import { localUrl } from '../settings/network.js'
import { CommandError, EXIT } from './command.js'
import { readLocalSettings, type LocalSettings } from './local-settings.js'

/** Where a destination runs, as it was given on the command line. */
export interface AdminOptions {
  url?: string
  token?: string
  config?: string
}

/** Adds the options that say where a destination runs. */
export function addAdminOptions(command: Command): Command {
  return command
    .option('--url <url>', 'the destination (default: that of the settings in this folder)')
    .option('--token <token>', 'its adminToken (default: HOOKLINE_ADMIN_TOKEN, or the settings)')
    .option('-c, --config <file>', 'settings that have both')
}

/** Said by a destination, instead of what was asked for. */
export class AdminError extends CommandError {
  constructor(
    readonly code: string,
    message: string,
  ) {
    super(EXIT.failed, message)
  }
}

/** Nobody answered. */
export class UnreachableError extends CommandError {
  constructor(
    message: string,
    /** The settings that led there, unless it was named. */
    readonly local: LocalSettings | undefined,
  ) {
    super(EXIT.unreachable, message)
  }
}

/** Asks a destination that runs: gets, or posts if there is a body. */
export type AskAdmin = (path: string, body?: object) => Promise<unknown>

/** @throws CommandError if it is not known where one runs. */
export function findAdmin({ url, token, config }: AdminOptions): AskAdmin {
  const local = url === undefined || config !== undefined ? readLocalSettings(config) : tryLocal()
  const { listen, adminListen, adminToken } = local?.settings ?? {}
  const address = adminListen ?? listen
  if (url === undefined && (!address || address.port === 0)) {
    const message = 'Where does it run? Give --url, or run this in the folder of its settings.'
    throw new CommandError(EXIT.usage, message)
  }
  const base = checkUrl(url ?? (address ? localUrl(address) : ''))
  const secret = token ?? (process.env['HOOKLINE_ADMIN_TOKEN'] || adminToken)
  return async (path, body) => {
    const asked = await fetch(`${base}/v1/admin${path}`, {
      ...(body && { method: 'POST', body: JSON.stringify(body) }),
      headers: {
        ...(body && { 'content-type': 'application/json' }),
        ...(secret !== undefined && { authorization: `Bearer ${secret}` }),
      },
    }).catch((error: unknown) => {
      const { cause = error } = error as Error
      const { code, message } = cause as NodeJS.ErrnoException
      const why = code ?? message
      throw new UnreachableError(
        `Nobody answers at ${base} (${why}).`,
        url === undefined ? local : undefined,
      )
    })
    return await answerOf(asked, base)
  }
}

async function answerOf(response: Response, base: string): Promise<unknown> {
  const answer = (await response.json().catch(() => undefined)) as
    { error?: { code: string; message: string } } | undefined
  if (response.ok && answer) return answer
  const { code, message } = answer?.error ?? {
    code: 'no_destination',
    message: `${base} answers ${response.status}, and not as a destination does: is it --url of one?`,
  }
  const isToken = code === 'no_admin_token' || code === 'wrong_admin_token'
  const fix = ' Give it with --token, or set HOOKLINE_ADMIN_TOKEN.'
  throw new AdminError(code, message + (isToken ? fix : ''))
}

/** A token may be in them; that there are none, or others, does not matter to who names the URL. */
function tryLocal(): LocalSettings | undefined {
  try {
    return readLocalSettings(undefined)
  } catch {
    return undefined
  }
}

function checkUrl(url: string): string {
  if (/^https?:\/\//i.test(url) && URL.canParse(url)) return url.replace(/\/+$/, '')
  const message = `--url must be a full URL, such as http://127.0.0.1:3300, got ${JSON.stringify(url)}.`
  throw new CommandError(EXIT.usage, message)
}
