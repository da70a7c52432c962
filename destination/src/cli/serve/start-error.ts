import { isIP } from 'node:net'
import { formatListen } from '../../settings/network.js'
import { shownFile } from '../../settings/file.js'
import type { Settings } from '../../settings/settings.js'
import type { StoreError } from '../../store/store-error.js'
import { CommandError, EXIT } from '../command.js'
import { explainOpenFiles } from '../open-files.js'
import { codeOf } from '../store-failure.js'

/**
 * Explains why the destination did not start. An error without a code is a bug: it is returned as it is, with its stack. So is that of a
 * limit of open files, which may come of any command, and is explained for all of them.
 */
export function explainStart(error: unknown, settings: Settings, file: string): unknown {
  const { code, message, syscall = '' } = error as NodeJS.ErrnoException
  if (typeof code !== 'string' || explainOpenFiles(error) !== undefined) return error
  const isAddress = ['listen', 'getaddrinfo'].includes(syscall)
  const field = fieldOf(error as AddressError, settings)
  const fix = `Set "${field}" in ${shownFile(file)} to another address.`
  const whys: Readonly<Record<string, string>> = {
    EADDRINUSE: `another process listens there. Stop it, or set "${field}" in ${shownFile(file)} to another port.`,
    EADDRNOTAVAIL: `this machine has no such address. ${fix}`,
    ENOTFOUND: `there is no such host. ${fix}`,
    EACCES: `this user may not listen on this port. Set "${field}" in ${shownFile(file)} to another port.`,
  }
  const why = isAddress ? whys[code] : undefined
  const text =
    why === undefined
      ? `Could not start: ${code === 'full' ? withoutPromise(message) : message}`
      : `Could not listen on ${formatListen(settings[field] ?? settings.listen)}: ${why}`
  const isOfStore = (error as Error).name === 'StoreError'
  return new CommandError(EXIT.failed, text, isOfStore ? codeOf(error as StoreError) : undefined)
}

/** An error of the operating system for an address, or for the search of a host, which has no port. */
interface AddressError {
  hostname?: string
  address?: string
  port?: number
}

/** The setting whose address can't be used. The server of `adminListen` listens first. */
function fieldOf(
  { hostname, address, port }: AddressError,
  { listen, adminListen }: Settings,
): 'listen' | 'adminListen' {
  if (!adminListen) return 'listen'
  const choose = (isAdmin: boolean) => (isAdmin ? 'adminListen' : 'listen')
  if (hostname !== undefined) return choose(adminListen.host === hostname)
  if (adminListen.port !== listen.port) return choose(adminListen.port === port)
  // With the same port, the hosts differ. A host that is a name is not the address that was found for it.
  if (address === listen.host) return 'listen'
  return choose(address === adminListen.host || isIP(adminListen.host) === 0)
}

/** A store that is full writes again by itself once there is room, but not after the process has ended. */
function withoutPromise(message: string): string {
  return message.replace(/: writing then continues automatically\b/, ', and start it again')
}
