// What the views of sources, destinations and tenants do in the same way, by their kind.
import { get, query, send } from './api.js'
import type {
  AuditEntry,
  ManagedSetting,
  ManagedSettings,
  SettingChanged,
  SettingDeleted,
} from '../src/model/answers.js'
import type { WaitingChoice } from '../src/model/setting.js'
import type { Fields } from './setting-form.js'

export type Kind = ManagedSetting['kind']

/** The parts of the settings, in words. */
export const PARTS: Readonly<Record<string, string>> = {
  name: 'Name',
  tenant: 'Tenant',
  title: 'Title',
  quotas: 'Quotas',
  portal: 'Portal',
  rateLimit: 'Rate limit',
  sources: 'Sources',
  webhooks: 'Endpoints',
  filters: 'Filters',
}

/** What somebody has done, before the name of what it was done to. */
export const ACTIONS: Readonly<Record<AuditEntry['action'], string>> = {
  create: 'created',
  update: 'changed',
  delete: 'deleted',
  rotate: 'started a rotation of',
  revoke: 'ended a rotation of',
  pause: 'paused',
  resume: 'resumed',
}

/** The secrets of each kind, in words, and who uses them. */
export const SECRETS: Readonly<Record<Kind, readonly SecretWords[]>> = {
  source: [
    {
      field: 'writeKey',
      label: 'Write key',
      noun: 'key',
      isNeeded: true,
      use: 'Clients send it with each request.',
      change: 'every client uses the new key',
      cost: (gone) => `Clients that use the ${gone} one are answered 401.`,
    },
  ],
  destination: [
    {
      field: 'sharedSecret',
      label: 'Shared secret',
      noun: 'secret',
      isNeeded: false,
      use: 'It signs each request with the header X-Signature.',
      change: 'the receiver knows the new secret',
      cost: (gone) => `Receivers that only know the ${gone} one refuse every request.`,
    },
    {
      field: 'webhookSecret',
      label: 'Webhook secret',
      noun: 'secret',
      isNeeded: false,
      use: 'It signs each request as Standard Webhooks say, with the header webhook-signature.',
      change: 'the receiver knows the new secret',
      cost: (gone) => `Receivers that only know the ${gone} one refuse every request.`,
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
  /** What happens to those who only know the one that is revoked. */
  cost: (gone: 'old' | 'new') => string
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

export const read = (kind: Kind, name: string, abort?: AbortSignal) =>
  get<ManagedSetting>(pathOf(kind, name), abort)

/** The condition that nobody else has changed it. */
const ifMatch = (version: number | null) => ({ 'If-Match': `"${version ?? 0}"` })

/** @param version - The one that was changed; `null` to create. */
export const save = (kind: Kind, name: string, settings: Fields, version: number | null) =>
  send<SettingChanged>(
    'PUT',
    pathOf(kind, name),
    settings,
    version === null ? { 'If-None-Match': '*' } : ifMatch(version),
  )

// Each of these changes the version that is shown, and no other one.
export const patch = ({ kind, name, version }: ManagedSetting, changes: Fields) =>
  send<SettingChanged>('PATCH', pathOf(kind, name), changes, ifMatch(version))

export const rotate = ({ kind, name, version }: ManagedSetting, secret: string) =>
  send<SettingChanged>(
    'POST',
    `${pathOf(kind, name)}/rotation${query({ secret })}`,
    undefined,
    ifMatch(version),
  )

export const revoke = (
  { kind, name, version }: ManagedSetting,
  secret: string,
  keep: 'new' | 'old',
) =>
  send<SettingChanged>(
    'DELETE',
    `${pathOf(kind, name)}/rotation${query({ secret, keep })}`,
    undefined,
    ifMatch(version),
  )

export const remove = (
  { kind, name, version }: ManagedSetting,
  waiting: WaitingChoice | undefined,
) =>
  send<SettingDeleted>(
    'DELETE',
    `${pathOf(kind, name)}${query({ waiting })}`,
    undefined,
    ifMatch(version),
  )
