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
  const { code, message, syscall = '', port } = error as NodeJS.ErrnoException & { port?: number }
  if (typeof code !== 'string' || explainOpenFiles(error) !== undefined) return error
  const isAddress = ['listen', 'getaddrinfo'].includes(syscall)
  const { listen, adminListen } = settings
  const isAdmin = adminListen !== undefined && adminListen.port === port && port !== listen.port
  const field = isAdmin ? 'adminListen' : 'listen'
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
      : `Could not listen on ${formatListen(isAdmin ? adminListen : listen)}: ${why}`
  const isOfStore = (error as Error).name === 'StoreError'
  return new CommandError(EXIT.failed, text, isOfStore ? codeOf(error as StoreError) : undefined)
}

/** A store that is full writes again by itself once there is room, but not after the process has ended. */
function withoutPromise(message: string): string {
  return message.replace(/: writing then continues automatically\b/, ', and start it again')
}
