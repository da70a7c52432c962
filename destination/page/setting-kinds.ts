// What the views of sources, destinations and tenants do in the same way, by their kind.
import { get, query, send } from './api.js'
import type {
  ManagedSetting,
  ManagedSettings,
  SettingChanged,
  SettingDeleted,
} from '../src/model/answers.js'
import type { Fields } from './setting-form.js'

export type Kind = ManagedSetting['kind']

/** The secrets of each kind, in words, and who uses them. */
export const SECRETS: Readonly<Record<Kind, readonly SecretWords[]>> = {
  source: [
    {
      ...{ field: 'writeKey', label: 'Write key', noun: 'key', isNeeded: true },
      use: 'Clients send it with each request.',
      change: 'every client uses the new key',
    },
  ],
  destination: [
    {
      ...{ field: 'sharedSecret', label: 'Shared secret', noun: 'secret', isNeeded: false },
      use: 'It signs each request with the header X-Signature.',
      change: 'the receiver knows the new secret',
    },
    {
      ...{ field: 'webhookSecret', label: 'Webhook secret', noun: 'secret', isNeeded: false },
      use: 'It signs each request as Standard Webhooks say, with the header webhook-signature.',
      change: 'the receiver knows the new secret',
    },
  ],
  tenant: [],
}

export interface SecretWords {
  field: string
  label: string
  noun: string
  isNeeded: boolean
  use: string
  /** When the old one may be revoked. */
  change: string
}

const pathOf = (kind: Kind, name: string) => `/${kind}s/${encodeURIComponent(name)}`

/** The address of the view of a source, destination or tenant. */
export const hashOf = (kind: Kind, name: string): string =>
  `#/settings/${kind}/${encodeURIComponent(name)}`

export const auditHash = (kind: Kind, name: string): string =>
  `#/settings/audit${query({ kind, name })}`

export const list = (
  kind: Kind,
  fields: Record<string, string | number | undefined>,
  abort?: AbortSignal,
) => get<ManagedSettings>(`/${kind}s${query(fields)}`, abort)

export const read = (kind: Kind, name: string) => get<ManagedSetting>(pathOf(kind, name))

/** @param version - The one that was changed; `undefined` to create. */
export const save = (kind: Kind, name: string, settings: Fields, version: number | undefined) =>
  send<SettingChanged>(
    'PUT',
    pathOf(kind, name),
    settings,
    version === undefined ? { 'If-None-Match': '*' } : { 'If-Match': `"${version}"` },
  )

export const enable = (name: string, enabled: boolean) =>
  send<SettingChanged>('PATCH', pathOf('destination', name), { enabled })

export const rotate = (kind: Kind, name: string, secret: string) =>
  send<SettingChanged>('POST', `${pathOf(kind, name)}/rotation${query({ secret })}`)

export const revoke = (kind: Kind, name: string, secret: string, keep: 'new' | 'old') =>
  send<SettingChanged>('DELETE', `${pathOf(kind, name)}/rotation${query({ secret, keep })}`)

/** Deletes the version that is shown. */
export const remove = (
  { kind, name, version }: ManagedSetting,
  waiting: 'keep' | 'discard' | undefined,
) =>
  send<SettingDeleted>('DELETE', `${pathOf(kind, name)}${query({ waiting })}`, undefined, {
    'If-Match': `"${version ?? 0}"`,
  })
