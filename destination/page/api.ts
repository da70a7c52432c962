import { signal } from '@preact/signals'
import { isPortal, linkToken, load, store } from './portal.js'

/** A mistake in what was sent, with the path of the wrong value. */
export interface Problem {
  path: string
  message: string
}

/** What some error answers have in addition. */
interface Details {
  problems?: Problem[]
  waiting?: number
}

/** An error answer of the admin API. `code` is stable. */
export class ApiError extends Error {
  constructor(
    readonly code: string,
    message: string,
    readonly details: Details = {},
  ) {
    super(message)
  }
}

const TOKEN = isPortal ? 'hookline-portal-token' : 'hookline-admin-token'

/** Where the API of this page is, relative to the page: a proxy may publish both below a path. */
export const API = isPortal ? 'v1/portal' : 'v1/admin'

/** The admin token, or that of a portal link; empty if there is none. The tab keeps it until the tab is closed. */
export const token = signal(linkToken || load('sessionStorage', TOKEN))

export function keepToken(value: string): void {
  token.value = value
  store('sessionStorage', TOKEN, value)
}

if (linkToken !== '') keepToken(linkToken)

const ACTOR = 'hookline-actor'

/** Who changes something from this tab, as the header `X-Actor` has it; empty if nobody has said so. */
export const actor = signal(load('sessionStorage', ACTOR))

export function keepActor(value: string): void {
  actor.value = value
  store('sessionStorage', ACTOR, value)
}

/** In ms: an answer that takes longer is late. People wait for about so long before they press a button again. */
const LATE_MS = 10_000

/** How many answers are late now. */
export const late = signal(0)

/** Waits for an answer, and counts it while it is late. It is not given up: a test of slow endpoints takes longer. */
async function answered<T>(answer: Promise<T>): Promise<T> {
  let counted = 0
  const timer = setTimeout(() => {
    counted = 1
    late.value++
  }, LATE_MS)
  try {
    return await answer
  } finally {
    clearTimeout(timer)
    late.value -= counted
  }
}

/**
 * Sends a request with the admin token, if there is one, or with the `Authorization` that is given.
 *
 * @throws {@link ApiError} with the code and message of an error answer, or with the code `unreachable` if the destination
 * does not answer. An aborted request throws the error of `fetch`.
 */
export async function request(path: string, init: RequestInit = {}): Promise<Response> {
  const headers = new Headers(init.headers)
  if (token.value !== '' && !headers.has('Authorization'))
    headers.set('Authorization', `Bearer ${token.value}`)
  const response = await answered(fetch(path, { ...init, headers })).catch((error: unknown) => {
    if (init.signal?.aborted) throw error
    throw new ApiError('unreachable', 'The destination does not answer.')
  })
  if (response.ok) return response
  throw await toError(response)
}

async function toError(response: Response): Promise<ApiError> {
  const fallback = `The destination answered with the status ${response.status}.`
  try {
    const body = (await response.json()) as Partial<Words> & { error?: Partial<Words> }
    const { code, message, problems, waiting } = body.error ?? body
    const details = { ...(problems && { problems }), ...(waiting !== undefined && { waiting }) }
    return new ApiError(code ?? 'unknown', message ?? fallback, details)
  } catch {
    return new ApiError('unknown', fallback)
  }
}

interface Words extends Details {
  code: string
  message: string
}

export async function get<T>(path: string, abort?: AbortSignal): Promise<T> {
  return readJson(await request(`${API}${path}`, abort === undefined ? {} : { signal: abort }))
}

/** @throws {@link ApiError} for what is no JSON: a login of a proxy in between is answered with 200, too. */
export async function readJson<T>(response: Response): Promise<T> {
  const text = await response.text()
  try {
    return JSON.parse(text) as T
  } catch {
    throw new ApiError('unknown', 'Something other than the destination answers. Reload the page.')
  }
}

export function post<T>(path: string, body: object): Promise<T> {
  return send('POST', path, body)
}

/** Sends a request that changes something. */
export async function send<T>(
  method: 'POST' | 'PUT' | 'PATCH' | 'DELETE',
  path: string,
  body?: object,
  condition: Record<string, string> = {},
): Promise<T> {
  const headers = new Headers(condition)
  if (actor.value !== '') headers.set('X-Actor', actor.value)
  if (body !== undefined) headers.set('content-type', 'application/json')
  const response = await request(`${API}${path}`, {
    method,
    headers,
    ...(body !== undefined && { body: JSON.stringify(body) }),
  })
  return readJson(response)
}

/** A query such as `?a=1&b=2`. Fields that are `undefined` or empty are left out; without fields it is empty. */
export function query(fields: Record<string, string | number | undefined>): string {
  const given = Object.entries(fields).filter(([, value]) => value !== undefined && value !== '')
  return given.length === 0
    ? ''
    : `?${new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString()}`
}
