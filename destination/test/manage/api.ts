// Requests to the routes that change sources and destinations.
import type {
  AuditLog,
  ManagedSetting,
  ManagedSettings,
  SettingChanged,
  SettingDeleted,
} from '../../src/model/answers.js'
import { ADMIN_TOKEN } from '../run.js'

export const SETTINGS_KEY = Buffer.alloc(32, 'k').toString('base64')
export const OTHER_KEY = Buffer.alloc(32, 'o').toString('base64')

/** The body of an answer, in every form that it may have. */
type Body = ManagedSetting &
  Omit<ManagedSettings, 'next'> &
  SettingChanged &
  SettingDeleted &
  Omit<AuditLog, 'next'> & {
    next: string | number | null
    error: {
      code: string
      message: string
      problems?: { path: string; message: string }[]
      waiting?: number
    }
  }

/** An answer: its status, its `ETag`, and its body. */
export interface Answered {
  status: number
  etag: string | null
  text: string
  body: Body
}

const isAsItIs = (body: unknown) => typeof body === 'string' || body instanceof Blob

/** Sends a request to the admin API of a destination. */
export async function ask(
  { adminUrl }: { adminUrl: string },
  method: string,
  path: string,
  body?: unknown,
  headers: Record<string, string> = {},
): Promise<Answered> {
  const response = await fetch(`${adminUrl}/v1/admin${path}`, {
    method,
    headers: { Authorization: `Bearer ${ADMIN_TOKEN}`, ...headers },
    ...(body !== undefined && { body: isAsItIs(body) ? body : JSON.stringify(body) }),
  })
  const text = await response.text()
  return {
    status: response.status,
    etag: response.headers.get('etag'),
    text,
    body: (text === '' ? {} : JSON.parse(text)) as Body,
  }
}
