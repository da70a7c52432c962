import type { StoreError } from '../store/store-error.js'
import { CommandError, EXIT } from './command.js'

/** Whether the same command may work later, although it can't use the store now. */
export function mayWorkLater({ code, isUnreachable, mayPass }: StoreError): boolean {
  return code === 'locked' || code === 'full' || isUnreachable || mayPass
}

/** What a command tells scripts of a store that it can't use; `undefined` if the exit code says as much. */
export function codeOf({ code }: StoreError): string | undefined {
  return code === 'failed' ? undefined : code
}

/** The error of a command that can't use the store. */
export function cannotUse(failure: StoreError, message = failure.message): CommandError {
  const exitCode = mayWorkLater(failure) ? EXIT.unreachable : EXIT.failed
  return new CommandError(exitCode, message, codeOf(failure))
}
