import type { Destination, Settings } from '../settings/settings.js'
import { Follower } from '../store/follower.js'
import type { ClockPort, RecordPort } from '../store/store.js'
import { Managed } from './managed.js'

/**
 * Reads all destinations for a command that has opened the store itself: those of the settings file, and those that were made
 * at run time and are kept in the store.
 *
 * @returns Of a destination in the store that these settings can't use, for example because they have another `settingsKey`,
 * only the name is known. It counts as enabled.
 */
export async function allDestinations(
  file: Settings,
  store: RecordPort & ClockPort,
): Promise<Pick<Destination, 'name' | 'enabled'>[]> {
  const managed = await Managed.open(file, store.clock.now)
  const unusable: string[] = []
  const follower = new Follower(store, async (records, isComplete) => {
    for (const { kind, name } of await managed.take(records, isComplete)) {
      if (kind === 'destination') unusable.push(name)
    }
  })
  await follower.catchUp()
  const { destinations } = managed.settings()
  return [...destinations, ...unusable.map((name) => ({ name, enabled: true }))]
}
