import { inspect } from 'node:util'

/** The message of an error, followed by the messages of its causes that it does not contain already. */
export function errorMessage(error: unknown): string {
  if (!hasMessage(error)) return typeof error === 'string' ? error : inspect(error, ONE_LINE)
  const { message, cause } = error
  if (cause === undefined) return message
  // Node ends its message about a certificate without any name with a colon.
  const why = errorMessage(cause).replace(/[: ]+$/, '')
  if (message.includes(why)) return message
  return message.endsWith('.') ? `${message} Cause: ${why}` : `${message}: ${why}`
}

const ONE_LINE = { depth: 1, breakLength: Infinity }

/** An error of another realm or of a driver may not be an `Error`, but it has a message. */
function hasMessage(error: unknown): error is { message: string; cause?: unknown } {
  return typeof (error as { message?: unknown } | null | undefined)?.message === 'string'
}
