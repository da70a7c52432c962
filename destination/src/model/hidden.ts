/**
 * Stands for a value that is not shown. A client that sends it back keeps the value. It has no characters of Latin-1, so
 * that no header can have this value.
 */
export const HIDDEN = '•••'
