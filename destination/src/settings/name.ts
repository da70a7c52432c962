/** What the name of a source, a destination, a tenant or a server must be. */
export const NAME_RULE = 'expected a name of 1 to 64 letters, digits, "-" and "_", got {got}.'

/** Whether a value follows the {@link NAME_RULE}. */
export function isName(given: unknown): given is string {
  return typeof given === 'string' && /^[\w-]{1,64}$/.test(given)
}
