import type { AuditEntry, AuditLog } from '../model/answers.js'
import { PAUSE_KIND } from '../model/audit.js'
import { KINDS, type Kind } from '../model/setting.js'
import type { LogEntry, RecordPort } from '../store/store.js'

/** A source, destination or tenant. */
interface About {
  kind: Kind
  name: string
}

/** The part of an audit entry that is in its text. */
export type NotedChange = Pick<AuditEntry, 'action' | 'by' | 'from' | 'changes'>
type SomeNotedChange = Pick<NotedChange, 'action'> & Partial<NotedChange>

/** Entries of the audit log that are read at once: each may have hundreds of KB. */
const AUDIT_SLICE = 20

/** A page of the audit log ends after so many characters of entries, so that no answer takes much memory. */
const AUDIT_CHARACTERS = 1_000_000

/**
 * What was changed by whom, the newest first.
 *
 * @param about - The source, destination or tenant; `undefined` for all.
 * @param before - The id of an entry to continue behind.
 * @returns fewer than `limit` if they are long.
 */
export async function readAudit(
  store: Pick<RecordPort, 'recordLog'>,
  about: About | undefined,
  before: number | undefined,
  limit: number,
): Promise<AuditLog> {
  const entries: AuditEntry[] = []
  let last = before
  for (let count = 0, characters = 0; ;) {
    const wanted = Math.min(AUDIT_SLICE, limit - count)
    const log = await logOf(store, about, last, wanted)
    for (const { kind: given, entry, ...rest } of log) {
      const kind = given === PAUSE_KIND ? 'destination' : KINDS.find((one) => one === given)
      if (kind) entries.push({ ...rest, kind, ...notedIn(entry) })
      last = rest.id
      count++
      characters += entry.length
      if (count === limit || characters >= AUDIT_CHARACTERS) return { entries, next: last }
    }
    if (log.length < wanted) return { entries, next: null }
  }
}

/** The pauses of a destination have records of their own, but are changes of the destination for those who read the log. */
async function logOf(
  store: Pick<RecordPort, 'recordLog'>,
  about: About | undefined,
  before: number | undefined,
  limit: number,
): Promise<LogEntry[]> {
  if (about?.kind !== 'destination') return store.recordLog(about, before, limit)
  const keys = [about, { kind: PAUSE_KIND, name: about.name }]
  const logs = await Promise.all(keys.map((key) => store.recordLog(key, before, limit)))
  const inOrder = logs.flat().sort((a, b) => b.id - a.id)
  return inOrder.slice(0, limit)
}

/** The store may have entries about pauses without some of the fields. */
function notedIn(entry: string): NotedChange {
  const { action, by = null, from = null, changes = [] } = JSON.parse(entry) as SomeNotedChange
  return { action, by, from, changes }
}
