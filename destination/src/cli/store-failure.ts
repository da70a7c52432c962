import type { StoreError } from '../store/store-error.js'
import { EXIT, type ExitCode } from './command.js'

/** Whether the same command may work later, although it can't use the store now. */
export function mayWorkLater({ code, isUnreachable, mayPass }: StoreError): boolean {
  return code === 'locked' || code === 'full' || isUnreachable || mayPass
}

/** What a command tells scripts of a store that it can't use; `undefined` if the exit code says as much. */
export function codeOf({ code }: StoreError): string | undefined {
  return code === 'failed' ? undefined : code
}

/** The exit code of a command that can't use the store. */
export function exitCodeOf(failure: StoreError): ExitCode {
  return mayWorkLater(failure) ? EXIT.unreachable : EXIT.failed
}
