import type { Command } from 'commander'
import { encodeActor } from '../model/actor.js'
import { ANSWERED_BY } from '../model/answered-by.js'
import type { Kind } from '../model/setting.js'
import { isName, NAME_RULE } from '../settings/name.js'
import { localUrl } from '../settings/network.js'
import type { Settings } from '../settings/settings.js'
import { CommandError, EXIT, fromEnvironment } from './command.js'
import { readLocalSettings } from './local-settings.js'
import { isRecord } from './record.js'

/** The options of the command line that say where a destination runs. */
export interface AdminOptions {
  url?: string
  token?: string
  config?: string
}

/** Adds the options that say where a destination runs. */
export function addAdminOptions(command: Command): Command {
  return command
    .option('--url <url>', 'URL of the destination (default: from the settings in this folder)')
    .option('--token <token>', 'its adminToken (default: HOOKLINE_ADMIN_TOKEN or the settings)')
    .option('-c, --config <file>', 'settings file that has the URL and the token')
}

/** Adds the option that says who makes a change. */
export function addActor(command: Command): Command {
  return command.option('--actor <who>', 'who makes the change, for the audit log')
}

/** The header that says who makes a change. */
export const actorHeader = ({ actor }: { actor?: string }) =>
  actor === undefined ? {} : { 'X-Actor': encodeActor(actor) }

/**
 * The path of a source, destination or tenant, as {@link AskAdmin} takes it.
 *
 * @param action - The rest of the path, such as `/pause`.
 * @throws CommandError if nothing can have this name. A URL cannot have `.` and `..` in its path, and would lead elsewhere.
 */
export function pathOf(kind: Kind, name: string, action = ''): string {
  if (isName(name)) return `/${kind}s/${name}${action}`
  const problem = NAME_RULE.replace('{got}', () => JSON.stringify(name))
  throw new CommandError(EXIT.usage, `${kind}: ${problem}`, 'invalid_parameter')
}

/** The codes that say that something that was given is wrong. */
const OF_USAGE = ['invalid_parameter', 'invalid_settings']

/** The statuses and the codes that say that the same request may succeed later. Proxies give some of these statuses, too. */
const LATER = { statuses: [429, 502, 503, 504], codes: ['test_running'] }

/** The destination answered a request with an error. */
export class AdminError extends CommandError {
  /** @param status - Of the answer. */
  constructor(code: string, message: string, status: number) {
    const mayPass = LATER.statuses.includes(status) || LATER.codes.includes(code)
    const exitCode = mayPass ? EXIT.unreachable : EXIT.failed
    super(OF_USAGE.includes(code) ? EXIT.usage : exitCode, message, code)
  }
}

/** No destination answered. */
export class UnreachableError extends CommandError {
  constructor(
    message: string,
    /** The settings file that the address comes from; `undefined` if it was given with `--url`. */
    readonly file: string | undefined,
  ) {
    super(EXIT.unreachable, message)
  }
}

/** How a request is sent. */
export interface How {
  /** By default POST if there is a body, else GET. */
  method?: 'PUT' | 'PATCH' | 'POST' | 'DELETE'
  headers?: Readonly<Record<string, string>>
  /**
   * What to do about an error, by its code, in the words of the command line. It follows the message of the destination, which speaks
   * of the requests of the admin API.
   */
  fixes?: Readonly<Record<string, string>>
}

/** Sends a request to the admin API of a running destination. */
export type AskAdmin = (path: string, body?: object, how?: How) => Promise<unknown>

/** A running destination. */
export interface Admin {
  ask: AskAdmin
  /** Reads a stream of Server-Sent Events until it ends. The first event is `open`, without data. */
  stream: (path: string) => AsyncGenerator<{ event: string; data: unknown }>
}

/**
 * Finds the destination that the options name.
 *
 * @throws CommandError if neither the options nor the settings have its address.
 */
export async function findAdmin({ url, token, config }: AdminOptions): Promise<Admin> {
  const given =
    checkToken(token, '--token') ??
    checkToken(fromEnvironment('HOOKLINE_ADMIN_TOKEN'), 'HOOKLINE_ADMIN_TOKEN')
  const needed = [
    ...(url === undefined ? (['listen', 'adminListen'] as const) : []),
    ...(given === undefined ? (['adminToken'] as const) : []),
  ]
  const isNeeded = url === undefined || config !== undefined
  const local = await (isNeeded ? readLocalSettings(config, needed) : tryLocal(needed))
  const { listen, adminListen, adminToken } = (local?.settings ?? {}) as Partial<Settings>
  const address = adminListen ?? listen
  if (url === undefined && (!address || address.port === 0)) {
    const message =
      'The URL of the destination is not known. Give --url, or run this command in the folder with its settings.'
    throw new CommandError(EXIT.usage, message)
  }
  const base = checkUrl(url ?? (address ? localUrl(address) : ''))
  const secret = given ?? adminToken
  const request: Request = (path, body, { method = body ? 'POST' : 'GET', headers } = {}) =>
    fetch(`${base}/v1/admin${path}`, {
      method,
      ...(body && { body: JSON.stringify(body) }),
      headers: {
        ...headers,
        ...(body && { 'content-type': 'application/json' }),
        ...(secret !== undefined && { authorization: `Bearer ${secret}` }),
      },
    }).catch((error: unknown) => {
      throw unreachable(error, base, url === undefined ? local?.file : undefined)
    })
  return {
    ask: async (path, body, how) => answerOf(await request(path, body, how), base, how?.fixes),
    stream: (path) => eventsOf(path, request, base),
  }
}

type Request = (...given: Parameters<AskAdmin>) => Promise<Response>

function unreachable(error: unknown, base: string, file: string | undefined): CommandError {
  const { cause = error } = error as Error
  const { code, message } = cause as NodeJS.ErrnoException
  // Source: https://fetch.spec.whatwg.org/#port-blocking
  if (message === 'bad port') {
    const text = `The port of ${base} cannot be used: the fetch of Node refuses it, as browsers do. Set "listen", or "adminListen" if the settings have it, to another port.`
    return new CommandError(EXIT.usage, text)
  }
  const text = `No answer from ${base} (${code ?? message}). Check that the destination runs there.`
  return new UnreachableError(text, file)
}

/** Not `.`, which does not match the line separators of Unicode: JSON may contain them. */
const EVENT = /^event: ([^\n]+)\ndata: ([^\n]*)$/

/** Source: https://html.spec.whatwg.org/multipage/server-sent-events.html, as far as the destination uses it. */
async function* eventsOf(path: string, request: Request, base: string) {
  const response = await request(path)
  if (!isOfDestination(response) || !response.ok || !response.body) await answerOf(response, base)
  yield { event: 'open', data: undefined }
  const decoder = new TextDecoder()
  let rest = ''
  try {
    for await (const chunk of response.body ?? []) {
      const blocks = (rest + decoder.decode(chunk, { stream: true })).split('\n\n')
      rest = blocks.pop() ?? ''
      for (const block of blocks) {
        const [, event, data = ''] = EVENT.exec(block) ?? []
        if (event !== undefined) yield { event, data: JSON.parse(data) as unknown }
      }
    }
  } catch (error) {
    throw unreachable(error, base, undefined)
  }
}

/** The error of an answer. */
interface Answered {
  code: string
  message: string
  problems: Problem[]
}

interface Problem {
  path: string
  message: string
}

const TOKEN_FIX = 'Give the token with --token, or set HOOKLINE_ADMIN_TOKEN.'
const OF_TOKEN: Readonly<Record<string, string>> = {
  no_admin_token: TOKEN_FIX,
  wrong_admin_token: TOKEN_FIX,
}

async function answerOf(
  response: Response,
  base: string,
  fixes: How['fixes'] = {},
): Promise<unknown> {
  const answer: unknown = isOfDestination(response) ? await response.json().catch(() => null) : null
  if (response.ok && isRecord(answer)) return answer
  const { code, message, problems } = errorIn(answer) ?? {
    code: 'no_destination',
    message: `${base} answered ${response.status}, but not as a hookline destination does. Check --url. If a destination of an older version runs there, update it.`,
    problems: [],
  }
  const fix = { ...fixes, ...OF_TOKEN }[code]
  // The message has the first problem already.
  const others = problems.slice(1).map(({ path, message }) => `\n  ${path}: ${message}`)
  const text = [fix === undefined ? message : `${message} ${fix}`, ...others].join('')
  throw new AdminError(code, text, response.status)
}

/** Whether a destination gave an answer, and not another server at a wrong URL, or a proxy in place of the destination. */
function isOfDestination({ headers }: Response): boolean {
  return headers.get(ANSWERED_BY.name) === ANSWERED_BY.value
}

/** @returns `undefined` if the answer has no error, or one of another form. */
function errorIn(answer: unknown): Answered | undefined {
  const error = isRecord(answer) ? answer['error'] : undefined
  if (!isRecord(error)) return undefined
  const { code, message, problems } = error
  if (typeof code !== 'string' || typeof message !== 'string') return undefined
  return { code, message, problems: Array.isArray(problems) ? problems.filter(isProblem) : [] }
}

function isProblem(value: unknown): value is Problem {
  return (
    isRecord(value) && typeof value['path'] === 'string' && typeof value['message'] === 'string'
  )
}

/** With `--url`, only the token is taken from the settings, so missing or wrong settings are not an error. */
async function tryLocal(needed: readonly ('listen' | 'adminListen' | 'adminToken')[]) {
  try {
    return await readLocalSettings(undefined, needed)
  } catch {
    return undefined
  }
}

/** Checks here what `fetch` would refuse with an error that shows the token. */
function checkToken(given: string | undefined, name: string): string | undefined {
  const token = given?.trim() // a file may end with a line break
  if (token === undefined || /^[\x21-\x7e]+$/.test(token)) return token
  const message = `${name} must be ASCII characters without spaces and line breaks, as every adminToken and operatorToken is.`
  throw new CommandError(EXIT.usage, message)
}

function checkUrl(url: string): string {
  const parsed = /^https?:\/\//i.test(url) && URL.canParse(url) ? new URL(url) : undefined
  if (parsed?.username === '' && parsed.password === '') return url.replace(/\/+$/, '')
  const got = url.includes('@') ? '' : `, got ${JSON.stringify(url)}` // it may have a password
  const message = parsed
    ? '--url must not have a user or a password, because fetch refuses them. Give the token of the destination with --token.'
    : `--url must be a full URL, such as http://127.0.0.1:3300${got}.`
  throw new CommandError(EXIT.usage, message)
}

/** What an answer lacks, because servers of the store are away. */
export function missing(away: readonly string[]): string {
  return `What is on ${away.join(', ')} is missing: that server of the store can't be reached.`
}
