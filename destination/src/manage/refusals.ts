import { Refusal } from '../http/refusal.js'
import type { Problem } from '../settings/problem.js'
import type { Kind } from '../model/setting.js'

/** There is no such source, destination or tenant. */
export function unknown(kind: Kind, name: string): Refusal {
  return new Refusal(404, `unknown_${kind}`, `There is no ${kind} ${JSON.stringify(name)}.`)
}

export function inFile(kind: Kind, name: string): Refusal {
  const message = `The ${kind} ${JSON.stringify(name)} is in the settings file. Change it there, and send SIGHUP to reload the file.`
  return new Refusal(409, 'in_settings_file', message)
}

export function noKey(): Refusal {
  const message =
    'Sources, destinations and tenants can be changed only if the settings have a "settingsKey", which encrypts them. Set one and reload the settings.'
  return new Refusal(409, 'no_settings_key', message)
}

/** @param version - The present version; `undefined` if there is none. */
export function wrongVersion(kind: Kind, name: string, version: number | undefined): Refusal {
  const is = version === undefined ? 'does not exist' : `has the ETag "${version}"`
  const message = `The ${kind} ${JSON.stringify(name)} ${is}. Get it again, and repeat the change if it is still right.`
  return new Refusal(412, 'version_mismatch', message)
}

export function alreadyThere(kind: Kind, name: string): Refusal {
  const message = `There is a ${kind} ${JSON.stringify(name)} already, with other settings. Give the new one another name, or change this one.`
  return new Refusal(412, 'version_mismatch', message)
}

/** The settings that a change was decided by are no longer those in the store. */
export function wrongRevision(): Refusal {
  const message =
    'The settings in the store have changed since the If-Match was shown. Try it again with "dryRun": true, and repeat it if it is still right.'
  return new Refusal(412, 'version_mismatch', message)
}

/** @param whose - Which settings they are, such as `The settings of the source "web"`. */
export function invalidSettings(whose: string, problems: readonly Problem[]): Refusal {
  const count = problems.length === 1 ? 'a mistake' : `${problems.length} mistakes`
  const [first] = problems
  const where = first?.path ? `${first.path}: ` : ''
  const message = `${whose} have ${count}. ${where}${first?.message ?? ''}`
  return new Refusal(400, 'invalid_settings', message, {}, { problems })
}

/** More names than this are not listed in a message. */
const MAX_LISTED = 20

function listOf(names: readonly string[]): string {
  const listed = names.slice(0, MAX_LISTED).map((name) => JSON.stringify(name))
  const others = names.length - listed.length
  return listed.join(', ') + (others > 0 ? ` and ${others} others` : '')
}

/** @param takers - The destinations that take the calls of the source. */
export function inUse(name: string, takers: readonly string[]): Refusal {
  const message = `The source ${JSON.stringify(name)} is one of the sources of ${listOf(takers)}. Remove it there first.`
  return new Refusal(409, 'source_in_use', message)
}

export function getsAlerts(name: string): Refusal {
  const message = `The alerts go to the destination ${JSON.stringify(name)}. Change "alerts" in the settings file first, and send SIGHUP.`
  return new Refusal(409, 'destination_in_use', message)
}

/** @param why - Why this process can't use what the store has. */
export function unusableHere(kind: Kind, name: string, why: string): Refusal {
  const message = `This process does not use the ${kind} ${JSON.stringify(name)} as the store has it, because ${why} Until then, change it in a process that uses it.`
  return new Refusal(409, 'unusable_here', message)
}

/** The sources and the destinations of the tenant, of which there are some. */
export function tenantInUse(
  name: string,
  { sources, destinations }: Record<'sources' | 'destinations', readonly string[]>,
): Refusal {
  const owned = [
    ...(sources.length > 0 ? [`the sources ${listOf(sources)}`] : []),
    ...(destinations.length > 0 ? [`the destinations ${listOf(destinations)}`] : []),
  ]
  const message = `The tenant ${JSON.stringify(name)} still has ${owned.join(' and ')}. Delete them first, or give them to another tenant.`
  return new Refusal(409, 'tenant_in_use', message)
}

/** @param names - The destinations that are deleted, and for which messages wait. */
export function messagesWait(names: readonly string[], waiting: number): Refusal {
  const one = names.length === 1
  const [wait, them] =
    waiting === 1 ? ['1 message waits', 'it'] : [`${waiting} messages wait`, 'them']
  const message =
    `${wait} for the ${one ? 'destination' : 'destinations'} ${listOf(names)}. Choose waiting=keep to keep ${them} for ` +
    `${one ? 'a new destination of this name and of the same tenant' : 'new destinations of these names and of the same tenants'}, or waiting=discard to delete ${them}.`
  return new Refusal(409, 'messages_waiting', message, {}, { waiting })
}

export function underWay(field: string): Refusal {
  const message = `There are two values of ${field} already. End the rotation first.`
  return new Refusal(409, 'rotation_under_way', message)
}

export function noRotation(field: string): Refusal {
  const message = `There are no two values of ${field}, so that none can be revoked. Start a rotation first.`
  return new Refusal(409, 'no_rotation', message)
}
