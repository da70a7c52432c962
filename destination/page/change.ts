// One change of what is shown, and what is known of a change that somebody else has made meanwhile.
import { useEffect, useRef } from 'preact/hooks'
import { actor, get, query } from './api.js'
import { isUnanswered, untilAnswered, useAsking } from './asking.js'
import { isPortal } from './portal.js'
import { decodeActor } from '../src/model/actor.js'
import type { AuditLog, ManagedSetting } from '../src/model/answers.js'
import { isSame, type Fields } from './setting-form.js'
import { ACTIONS, PARTS, read, SECRETS, type Kind } from './setting-kinds.js'
import { readStatus, toApiError } from './state.js'

/** What there is now. */
export interface Newest {
  /** `undefined` if it was deleted. */
  item: ManagedSetting | undefined
  /** The last change in words: `Bob has changed crm meanwhile.` */
  news: string
  /** Whether the log names somebody else for it. Otherwise it may be a change of this tab whose answer was lost. */
  isByOther: boolean
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
  const by = last?.by ?? null
  return {
    item,
    news: `${by ?? 'Somebody else'} has ${did} ${name} meanwhile.`,
    isByOther: by !== null && by !== decodeActor(actor.peek()),
  }
}

/** The names of the settings and of the secrets that differ. */
export function changedIn(before: ManagedSetting, after: ManagedSetting): readonly string[] {
  const differing = (one: Fields, other: Fields) =>
    Object.keys({ ...one, ...other }).filter((name) => !isSame(one[name], other[name]))
  return [
    ...differing(before.settings, after.settings),
    ...differing(before.secrets, after.secrets),
  ]
}

/** What differs, in sentences. @param unsaid - The parts of the settings that are described elsewhere. */
export function differences(
  before: ManagedSetting,
  after: ManagedSetting,
  unsaid: readonly string[] = [],
): string {
  const { settings } = after
  const changed = changedIn(before, after)
  const secrets = SECRETS[after.kind].filter(({ field }) => changed.includes(field))
  const names = changed.filter((name) => !secrets.some(({ field }) => field === name))
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

/** What a change is to lead to. */
interface Wish {
  /** Whether this is what was wanted. */
  isDone: (there: ManagedSetting | undefined) => boolean
  /** What follows a change that was made although its answer was lost. Without it, something is lost with the answer. */
  done?: () => void
  /** What is not known if it was made but not answered. */
  unknown?: string
}

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
  const explain = async (error: unknown, { isDone, done, unknown = '' }: Wish) => {
    const { code, message } = toApiError(error)
    const isLost = isUnanswered(error)
    failure.value = isLost
      ? `${message} It may have made the change. The page asks until it knows.`
      : message
    // If the token is no longer right, this asks for it.
    await readStatus()
    if (!isLost && !STALE.includes(code) && code !== `unknown_${kind}`) return
    const { signal } = controller.current
    const found = await untilAnswered(() => newest(kind, name, signal), signal)
    if (!found) return
    const { item: there, news, isByOther } = found
    if (there?.version === version) {
      failure.value = `${message} Nothing has changed. Try it again.`
      return
    }
    if (there) onNewer(there)
    // A browser repeats a request whose answer is lost, and the repeat is refused if the first one has made the change.
    const isOwn = isDone(there) && (isLost || !isByOther)
    if (isOwn && done && (isLost || unknown === '')) {
      failure.value = ''
      done()
    } else if (isOwn && isLost) {
      failure.value = `The answer was lost. ${name} is another version now, probably by this request. ${unknown}`
    } else if (isOwn) {
      failure.value = `${name} has changed as you wanted, perhaps by this request: a browser repeats it if the answer is lost. ${unknown}`
    } else if (isLost && !isByOther) {
      failure.value = `The answer was lost. ${name} is ${there ? 'another version' : 'deleted'} now, perhaps by this request. Check it, and try it again.`
    } else {
      const first = isLost ? 'The answer was lost.' : 'Nothing was done:'
      failure.value = `${first} ${news} ${there ? differences(item, there) : ''} Check it, and try it again.`
    }
  }
  const change = (make: () => Promise<void>, wish: Wish) =>
    ask(make, (error) => explain(error, wish))
  return { failure, isAsking, change }
}
