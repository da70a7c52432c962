import debug from 'debug'

/**
 * Logs what the client does when the environment has `DEBUG=analytics`. Source: spec "Endpoints", rule 6.
 *
 * Never give it a write key, nor of a message more than its type and id.
 */
export const log = debug('analytics')
