import { hash } from 'node:crypto'

/** The parts into which all sources are divided. A whole share moves, so with more of them a server can be filled more evenly. */
export const SHARES = 256

/**
 * The share of a source. All messages of a source are in one share, and so on one server, because only there they are recognized
 * if they come again. Never change this: the servers have their messages by it.
 */
export function shareOf(source: string): number {
  return hash('sha256', source, 'buffer').readUInt8(0)
}

/**
 * The servers of the shares of a new store. Whatever the number of servers is, none has more than one share above another. Later
 * changes are written down share by share, so no rule has to say which shares stay when a server is added.
 */
export function spread(servers: number): number[] {
  return Array.from({ length: SHARES }, (_, share) => share % servers)
}
