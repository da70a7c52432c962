/** The version of this package, as its requests state it. */
export const version = '0.1.0'
