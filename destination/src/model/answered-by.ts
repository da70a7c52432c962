/**
 * The header of every answer of the admin API. A client tells a destination from another server by it: a server at a wrong URL may
 * answer with JSON, too.
 */
export const ANSWERED_BY = { name: 'X-Hookline', value: 'destination' } as const
