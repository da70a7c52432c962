/**
 * Stands for a value that is not shown. A client that sends it back keeps the value. It has no characters of Latin-1, so
 * that no header can have this value.
 */
export const HIDDEN = '•••'

/** Whether a text has {@link HIDDEN} in it, also as a URL parser writes it. */
export const hasHidden = (text: string): boolean => /•••|(%E2%80%A2){3}/i.test(text)
