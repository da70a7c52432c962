import { errorMessage } from '../observe/error-message.js'
import type { Log } from '../observe/log.js'
import type { Follower } from '../store/follower.js'
import { isConflict } from '../store/store-error.js'
import type { RecordChange, RecordPort } from '../store/store.js'
import { KINDS } from '../model/setting.js'
import type { Changes } from './changes.js'
import type { Managed } from './managed.js'

/** What is needed to encrypt everything again. */
export interface ResealParts {
  store: Pick<RecordPort, 'writeRecords'>
  managed: Managed
  follower: Pick<Follower, 'catchUp'>
  changes: Pick<Changes, 'inTurn'>
}

/** Records that are encrypted again at once. */
const RESEAL_SLICE = 100

/** How many of these slices may meet changes by others before the next start is left to go on. */
const RESEAL_CONFLICTS = 20

/** Encrypts everything with the first key, and says so, because only then may the other keys be removed. */
export async function resealAll(parts: ResealParts, log: Log): Promise<void> {
  try {
    const records = await resealInSlices(parts)
    if (records > 0)
      log.info({ records }, 'the settings in the store are encrypted with the first settingsKey')
  } catch (error) {
    const details = { error: errorMessage(error) }
    log.warn(
      details,
      'the settings in the store could not be encrypted with the first settingsKey: the next start or SIGHUP tries again',
    )
  }
}

/** @returns how many records were encrypted again. */
async function resealInSlices(parts: ResealParts): Promise<number> {
  let all = 0
  let conflicts = 0
  for (;;) {
    try {
      const count = await parts.changes.inTurn(() => resealSlice(parts))
      all += count
      if (count < RESEAL_SLICE) return all
    } catch (error) {
      // Somebody changes the settings meanwhile, or another process does the same.
      if (!isConflict(error) || ++conflicts === RESEAL_CONFLICTS) throw error
    }
  }
}

async function resealSlice({ store, managed, follower }: ResealParts): Promise<number> {
  const { sealer } = managed
  if (!sealer) return 0
  await follower.catchUp()
  const changes = KINDS.flatMap((kind) =>
    Array.from(managed.entries(kind))
      .filter(([, { keyId }]) => keyId !== sealer.keyId)
      .slice(0, RESEAL_SLICE)
      .map(([name, { version, raw }]): RecordChange => {
        const body = sealer.seal({ kind, name }, JSON.stringify(raw))
        return { kind, name, version, body }
      }),
  ).slice(0, RESEAL_SLICE)
  if (changes.length > 0) {
    await store.writeRecords(changes)
    // They are written. If they can't be read back now, the follower does that later.
    await follower.catchUp().catch(() => undefined)
  }
  return changes.length
}
