// One change of what is shown, and what is known of a change that somebody else has made meanwhile.
import { useEffect, useRef } from 'preact/hooks'
import { get, query } from './api.js'
import { useAsking } from './asking.js'
import { isPortal } from './portal.js'
import type { AuditLog, ManagedSetting } from '../src/model/answers.js'
import { isSame } from './setting-form.js'
import { ACTIONS, PARTS, read, SECRETS, type Kind } from './setting-kinds.js'
import { readStatus, toApiError } from './state.js'

/** What there is now. */
export interface Newest {
  /** `undefined` if it was deleted. */
  item: ManagedSetting | undefined
  /** The last change in words: `Bob has changed crm meanwhile.` */
  news: string
}

/** So many entries are searched for the last change that is no pause. */
const LATEST = 10

export async function newest(kind: Kind, name: string, abort?: AbortSignal): Promise<Newest> {
  const [item, log] = await Promise.all([
    read(kind, name, abort).catch((error: unknown) => {
      if (toApiError(error).code === `unknown_${kind}`) return undefined
      throw error
    }),
    // Who has changed it is not told to tenants.
    isPortal ? undefined : get<AuditLog>(`/audit${query({ kind, name, limit: LATEST })}`, abort),
  ])
  const last = log?.entries.find(({ action }) => action !== 'pause' && action !== 'resume')
  const did = item ? ACTIONS[last?.action ?? 'update'] : ACTIONS.delete
  return { item, news: `${last?.by ?? 'Somebody else'} has ${did} ${name} meanwhile.` }
}

/** What differs, in sentences. @param unsaid - The parts of the settings that are described elsewhere. */
export function differences(
  before: ManagedSetting,
  after: ManagedSetting,
  unsaid: readonly string[] = [],
): string {
  const { settings } = after
  const names = Object.keys({ ...before.settings, ...settings }).filter(
    (name) => !isSame(before.settings[name], settings[name]),
  )
  const secrets = SECRETS[after.kind].filter(
    ({ field }) => before.secrets[field] !== after.secrets[field],
  )
  const parts = [
    ...names
      .filter((name) => name !== 'enabled' && !unsaid.includes(name))
      .map((name) => PARTS[name] ?? name),
    ...secrets.map(({ label }) => label),
  ]
  const sentences = [
    ...(parts.length > 0 ? [`Changed by somebody else: ${parts.join(', ')}.`] : []),
    ...(names.includes('enabled')
      ? [`It is ${settings['enabled'] ? 'enabled' : 'disabled'} now.`]
      : []),
    ...(names.length + secrets.length === 0
      ? ['What is shown is as it was: a secret may be another one.']
      : []),
  ]
  return sentences.join(' ')
}

/** The codes that say that something else was shown than there is. */
const STALE = ['version_mismatch', 'rotation_under_way', 'no_rotation']

/** The codes that do not say whether the change was made. The second one is that of an answer of a proxy. */
const UNANSWERED = ['unreachable', 'unknown']

/** In ms: the pause before the destination is asked again. */
const RETRY_MS = 2_000

/**
 * Makes one change at a time. If what is shown is not what there is, or if it is not known whether the change was made, the newest
 * version is shown, with what is different in it.
 *
 * @param onNewer - Shows the newest version.
 */
export function useChange(item: ManagedSetting, onNewer: (item: ManagedSetting) => void) {
  const { failure, isAsking, ask } = useAsking()
  const controller = useRef(new AbortController())
  useEffect(
    () => () => {
      controller.current.abort()
    },
    [],
  )
  const { kind, name, version } = item
  const explain = async (error: unknown, lost: string) => {
    const { code, message } = toApiError(error)
    const isUnanswered = UNANSWERED.includes(code)
    failure.value = isUnanswered
      ? `${message} It may have made the change. The page asks until it knows.`
      : message
    // If the token is no longer right, this asks for it.
    await readStatus()
    if (!isUnanswered && !STALE.includes(code)) return
    const found = await newestSoon(kind, name, controller.current.signal)
    if (!found) return
    const { item: there, news } = found
    if (there?.version === version) {
      failure.value = `${message} Nothing has changed. Try it again.`
      return
    }
    failure.value = isUnanswered
      ? `The answer was lost. ${name} is ${there ? 'another version' : 'deleted'} now, probably by this request. ${lost}`
      : `Nothing was done: ${news} ${there ? differences(item, there) : ''} Check it, and try it again.`
    if (there) onNewer(there)
  }
  /** @param lost - What is lost with an answer. */
  const change = (make: () => Promise<void>, lost = '') =>
    ask(make, (error) => explain(error, lost))
  return { failure, isAsking, change }
}

async function newestSoon(
  kind: Kind,
  name: string,
  abort: AbortSignal,
): Promise<Newest | undefined> {
  while (!abort.aborted) {
    try {
      return await newest(kind, name, abort)
    } catch {
      await new Promise((resolve) => setTimeout(resolve, RETRY_MS))
    }
  }
  return undefined
}
