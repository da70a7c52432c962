import { waitingIn } from '../model/delivery.js'
import { createAddressRule } from '../model/address.js'
import { connectionLimit } from '../http/connection-limit.js'
import { errorMessage } from '../observe/error-message.js'
import type { Log } from '../observe/log.js'
import { eachInSlices } from '../model/slices.js'
import { recipientOf } from '../settings/alerts.js'
import { refusedEndpointsOf } from '../settings/reach.js'
import type { Settings } from '../settings/settings.js'
import type { ReadPort, Store } from '../store/store.js'
import { formerDestinations } from './status.js'

/** Of fewer open files than this, deliveries and clients get only a few hundred connections. It is the usual limit of a shell. */
const FEW_FILES = 1_024

/**
 * Logs if this process may open few files.
 *
 * @param maxConnections - How many connections clients may have, which is half of the files.
 */
export function warnOfFiles(log: Log, maxConnections = connectionLimit()): void {
  if (maxConnections === undefined || maxConnections >= FEW_FILES / 2) return
  log.warn(
    { maxConnections, maxRequests: Math.ceil(maxConnections / 2) },
    'the limit of open files is low, and each connection takes one: set it to 65536 (`ulimit -n`, or LimitNOFILE of systemd)',
  )
}

/** Logs if the alerts have no destination that could get them. */
export function warnOfAlerts(settings: Settings, log: Log): void {
  const name = settings.alerts?.destination
  if (name === undefined || recipientOf(settings)) return
  log.warn(
    { destination: name },
    'alerts are only logged: neither the settings file nor the store has an enabled destination without a tenant of the name in "alerts"',
  )
}

/** Logs if servers that the settings do not name may have messages of the store. */
export function warnOfFormerServers({ formerServers = [] }: Store, log: Log): void {
  if (formerServers.length === 0) return
  log.warn(
    { servers: formerServers },
    'shares of the store were on servers that "store" does not name: their dead letters and history are not found here, and messages ' +
      'that they have are not recognized if they come again. Name them in "store" until the retention is over, if you need these',
  )
}

/** Logs each endpoint that nothing can be sent to by the present `allowNetworks`. */
export async function warnOfRefused(
  { destinations, allowNetworks }: Settings,
  log: Log,
): Promise<void> {
  const isAllowed = createAddressRule(allowNetworks)
  await eachInSlices(destinations, (destination) => {
    for (const { message } of refusedEndpointsOf(destination, isAllowed)) {
      log.warn(
        { destination: destination.name, problem: message },
        'nothing can be sent to an endpoint: its messages become dead letters',
      )
    }
  })
}

/**
 * Logs each former destination, because its messages wait until somebody puts it back.
 *
 * @param signal - Is aborted when the process ends. The store is closed then, so that its error says nothing.
 */
export async function warnOfFormer(
  store: Pick<ReadPort, 'stats'>,
  settings: Pick<Settings, 'destinations'>,
  log: Log,
  signal: AbortSignal,
): Promise<void> {
  try {
    for (const { name, dead, ...counts } of await formerDestinations(
      await store.stats(),
      settings,
    )) {
      log.warn(
        { destination: name, waiting: waitingIn(counts), dead },
        'the store has messages of a destination that the settings do not have: put it back under this name to send them ' +
          '("sources": [] if it is to get no more calls), or what waits becomes a dead letter after the retention',
      )
    }
  } catch (error) {
    if (signal.aborted) return
    log.warn({ error: errorMessage(error) }, 'messages of former destinations could not be counted')
  }
}
