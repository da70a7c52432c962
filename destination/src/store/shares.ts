import { hash } from 'node:crypto'

/** The parts into which all sources are divided. A whole share moves, so with more of them a server can be filled more evenly. */
export const SHARES = 256

/** The epoch of the shares of a new store. */
export const FIRST_EPOCH = 1

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

/**
 * The new servers of shares that are to be spread evenly, with the fewest moves: none has more than one share above another.
 *
 * @param owners - The present servers, at the indexes of the shares.
 * @param servers - All servers that may have shares.
 */
export function balanced<Server>(
  owners: readonly Server[],
  servers: readonly Server[],
): Map<number, Server> {
  const counts = new Map(servers.map((server) => [server, 0]))
  const free: number[] = []
  // Those that have the most keep one more, where the shares can't be divided evenly.
  const present = (server: Server) => owners.filter((owner) => owner === server).length
  const order = [...servers].sort((a, b) => present(b) - present(a))
  const target = new Map(
    order.map((server, i) => [
      server,
      Math.floor(owners.length / order.length) + (i < owners.length % order.length ? 1 : 0),
    ]),
  )
  for (const [share, owner] of owners.entries()) {
    const count = counts.get(owner)
    if (count === undefined || count >= (target.get(owner) ?? 0)) free.push(share)
    else counts.set(owner, count + 1)
  }
  const moves = new Map<number, Server>()
  for (const server of order) {
    const missing = (target.get(server) ?? 0) - (counts.get(server) ?? 0)
    for (const share of free.splice(0, missing)) moves.set(share, server)
  }
  return moves
}
