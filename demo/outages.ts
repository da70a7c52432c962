import { setTimeout } from 'node:timers/promises'
import type { DestinationProcess } from './destination-process.js'
import type { ReceiverProcess } from './receiver-process.js'
import type { Stretch } from './stretches.js'

/**
 * Causes the outages, one after the other. Once the crm fails, the destination sends a first probe after 1 s and a second
 * one 2 s later. The first probe finds the port closed, and the second one finds a healthy crm.
 *
 * @param enter - called at the start of each stretch
 */
export async function runOutages(
  crm: ReceiverProcess,
  destination: DestinationProcess,
  enter: (name: Stretch['name']) => void,
): Promise<void> {
  enter('warming up')
  await setTimeout(1_000)
  enter('all is up')
  await setTimeout(2_000)
  enter('crm answers 503')
  await crm.become('answers 503')
  await setTimeout(1_000)
  enter("crm's port is closed")
  await crm.become('port closed')
  await setTimeout(2_000)
  await crm.become('up')
  enter('all is up')
  await setTimeout(2_000)
  enter('destination is killed')
  await destination.end('SIGKILL')
  await setTimeout(1_000)
  await destination.start()
  enter('all is up')
}
