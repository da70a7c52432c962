/** The message of an error, followed by the messages of its causes. */
export function errorMessage(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  return error.cause === undefined
    ? error.message
    : `${error.message}: ${errorMessage(error.cause)}`
}
