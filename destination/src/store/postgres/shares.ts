import { MAX_SERVERS, floorOf } from '../server-ids.js'
import { FIRST_EPOCH, SHARES, spread } from '../shares.js'
import { StoreError } from '../store-error.js'
import type { Directory, ServerIdentity } from '../servers.js'
import type { Connection, RunQuery } from './connection.js'
import { hasTable } from './schema.js'
import type { Tables } from './tables.js'

/** The class of the advisory lock that keeps two processes from changing these tables at once: "shar" in ASCII. */
const LOCK = 0x73686172

/**
 * The tables of a server that is one of several. They are not among the migrations, so that a single server does not get them, and
 * an earlier version can still use it.
 *
 * - `server` has one row: who this server is.
 * - `own_shares` has the shares that are this server's own. A put looks here, in the same statement: so no process can put by a
 *   directory that is out of date. Whoever takes a share away locks the table first, and so waits for the puts under way.
 * - `servers`, `shares` and `former_shares` are the directory. Only the home has rows in them. A server that is not `enrolled` was
 *   named once, but its database has never been a part of the store. `next` is the server to which a share is about to go. A former
 *   owner of a share is there for as long as it has messages of it: `up_to` is null while messages that wait are moved away, then it
 *   is the last id that the former owner had given.
 */
const TABLES = `
  CREATE TABLE IF NOT EXISTS $.server (store uuid NOT NULL, number smallint NOT NULL, name text COLLATE "C" NOT NULL);
  CREATE TABLE IF NOT EXISTS $.own_shares (share smallint PRIMARY KEY, epoch bigint NOT NULL);
  CREATE TABLE IF NOT EXISTS $.servers (number smallint PRIMARY KEY, name text COLLATE "C" NOT NULL UNIQUE,
    enrolled boolean NOT NULL);
  CREATE TABLE IF NOT EXISTS $.shares (share smallint PRIMARY KEY, server smallint NOT NULL, epoch bigint NOT NULL,
    next smallint);
  CREATE TABLE IF NOT EXISTS $.former_shares (share smallint, server smallint, up_to bigint, PRIMARY KEY (share, server));`

/** The last one of {@link TABLES}: if it is there, all are. */
const LAST_TABLE = 'former_shares'

type Querying = Pick<Connection, 'query'>

/** What a server knows of itself as one of several, and the directory if it is the home. */
export function prepareShares({ query, transact, schema }: Tables) {
  const change = <T>(work: (query: RunQuery) => Promise<T>): Promise<T> =>
    transact(async (inside) => {
      await inside('SELECT pg_advisory_xact_lock($1, hashtext($2))', [LOCK, schema])
      // Even with IF NOT EXISTS, the server demands the right to create tables.
      if (!(await hasTable({ query: inside }, schema, LAST_TABLE))) {
        // The puts of processes that use this server alone end before, and later ones see the tables.
        await inside(`LOCK TABLE ${schema}.deliveries IN SHARE MODE`)
        await inside(TABLES.replaceAll('$.', () => `${schema}.`))
      }
      return work(inside)
    })

  const hasMessages = async (inside: RunQuery): Promise<boolean> => {
    const [row] = await inside<{ found: boolean }>(
      `SELECT EXISTS (SELECT FROM ${schema}.deliveries) AS found`,
    )
    return row?.found ?? false
  }

  const beServer = async (inside: RunQuery, { store, number, name }: ServerIdentity) => {
    await inside(`INSERT INTO ${schema}.server VALUES ($1, $2, $3)`, [store, number, name])
    if (number > 0) await inside(`SELECT setval('${schema}.ids', $1)`, [floorOf(number)])
  }

  const addServers = async (inside: RunQuery, names: readonly string[]) => {
    // Before the shares are divided, a name that was never enrolled may have been a mistake.
    const unused = `NOT enrolled AND name <> ALL ($1::text[]) AND NOT EXISTS (SELECT FROM ${schema}.shares)`
    await inside(`DELETE FROM ${schema}.servers WHERE ${unused}`, [names])
    const text = `SELECT number, name FROM ${schema}.servers`
    const known = await inside<{ number: number; name: string }>(text)
    const added = names.filter((name) => !known.some((one) => one.name === name))
    const first = Math.max(-1, ...known.map(({ number }) => number)) + 1
    if (first + added.length > MAX_SERVERS) {
      throw new StoreError(
        'unsupported',
        `store: there would be ${first + added.length} servers: expected at most ${MAX_SERVERS}, counting former ones.`,
      )
    }
    const insert = `
      INSERT INTO ${schema}.servers SELECT n + $2 - 1, name, n + $2 = 1 FROM unnest($1::text[]) WITH ORDINALITY AS a (name, n)`
    await inside(insert, [added, first])
  }

  const directory = async (inside: RunQuery = query): Promise<Directory> => {
    const [row] = await inside<Directory>(`
      SELECT store, (
          SELECT json_agg(coalesce(s.name, '') ORDER BY n) FROM generate_series(0, (SELECT max(number) FROM ${schema}.servers)) n
          LEFT JOIN ${schema}.servers s ON s.number = n
        ) AS names, (SELECT json_agg(number ORDER BY number) FROM ${schema}.servers WHERE enrolled) AS enrolled,
        (SELECT coalesce(json_agg(json_build_object('server', server, 'epoch', epoch, 'next', next, 'former', (
            SELECT coalesce(json_agg(json_build_object('server', f.server, 'isMoving', up_to IS NULL)), '[]')
            FROM ${schema}.former_shares f WHERE f.share = s.share
          )) ORDER BY share), '[]') FROM ${schema}.shares s) AS shares
      FROM ${schema}.server WHERE number = 0`)
    if (row) return row
    throw new StoreError('failed', 'store: the home has no directory of the servers any more.')
  }

  return {
    identity: () => identityOf({ query }, schema),
    directory: () => directory(),

    found: (names: readonly string[]): Promise<Directory> =>
      change(async (inside) => {
        const known = await identityOf({ query: inside }, schema)
        if (known && known.number !== 0) throw notItself(known, names[0] ?? '')
        if (!known) {
          await inside(`INSERT INTO ${schema}.server VALUES (gen_random_uuid(), 0, $1)`, [names[0]])
        }
        await addServers(inside, names)
        return directory(inside)
      }),

    enroll: (identity: ServerIdentity, wasEnrolled: boolean): Promise<void> =>
      change(async (inside) => {
        const known = await identityOf({ query: inside }, schema)
        if (known) {
          checkIdentity(known, identity)
          return
        }
        const { name } = identity
        if (wasEnrolled) throw neverEnrolled(name)
        if (await hasMessages(inside)) {
          throw new StoreError(
            'unsupported',
            `store: ${name} has messages already: expected an empty database. Only the first server of the list may have ` +
              'messages when several servers become one store.',
          )
        }
        await beServer(inside, identity)
      }),

    /** @throws StoreError as if the server could not be reached, if the connection leads to another one. */
    confirm: async (identity: ServerIdentity, inside: RunQuery): Promise<void> => {
      const found = await identityOf({ query: inside }, schema)
      try {
        if (!found) throw neverEnrolled(identity.name)
        checkIdentity(found, identity)
      } catch (error) {
        const { code, message } = error as StoreError
        throw new StoreError(code, message, { isUnreachable: true })
      }
    },

    noteEnrolled: async ({ number, name }: ServerIdentity): Promise<void> => {
      const text = `UPDATE ${schema}.servers SET enrolled = true WHERE number = $1 AND name = $2 RETURNING number`
      if ((await query(text, [number, name])).length > 0) return
      throw new StoreError(
        'failed',
        `store: ${name} is not in the directory of the servers any more.`,
      )
    },

    firstOwners: async (numbers: readonly number[]): Promise<number[]> =>
      (await hasMessages(query))
        ? Array<number>(SHARES).fill(0)
        : spread(numbers.length).map((server) => numbers[server] ?? 0),

    divide: (owners: readonly number[]): Promise<Directory> =>
      change(async (inside) => {
        // A process that uses the home alone may store messages until now, and they stay here.
        await inside(`LOCK TABLE ${schema}.own_shares IN ACCESS EXCLUSIVE MODE`)
        const [divided] = await inside(`SELECT FROM ${schema}.shares LIMIT 1`)
        if (!divided && owners.some((owner) => owner > 0) && (await hasMessages(inside))) {
          throw new StoreError(
            'failed',
            'store: messages came while the shares were being divided: try again. Then the home keeps all shares.',
            { isUnreachable: true },
          )
        }
        await inside(
          `INSERT INTO ${schema}.shares SELECT n - 1, server, $2 FROM unnest($1::int[]) WITH ORDINALITY AS a (server, n)
           ON CONFLICT (share) DO NOTHING`,
          [owners, FIRST_EPOCH],
        )
        return directory(inside)
      }),
  }
}

/** Who a server is; `undefined` if it is not one of several. */
async function identityOf(
  connection: Querying,
  schema: string,
): Promise<ServerIdentity | undefined> {
  if (!(await hasTable(connection, schema, 'server'))) return undefined
  const [row] = await connection.query<ServerIdentity>(
    `SELECT store, number, name FROM ${schema}.server`,
  )
  return row
}

/** @throws StoreError if a server is not who it should be. */
function checkIdentity(found: ServerIdentity, expected: ServerIdentity): void {
  const isSame =
    found.store === expected.store &&
    found.number === expected.number &&
    found.name === expected.name
  if (!isSame) throw notItself(found, expected.name)
}

function neverEnrolled(name: string): StoreError {
  return new StoreError(
    'unsupported',
    `store: the database of ${name} is not the one that ${name} had before: expected its messages, got a database that ` +
      'has never been a part of this store. Check the URL, or restore a backup.',
  )
}

function notItself({ name, number }: ServerIdentity, expected: string): StoreError {
  return new StoreError(
    'unsupported',
    `store: the database of ${expected} is that of the server ${name} (number ${number}) of a store: check the names and the URLs ` +
      'in the settings.',
  )
}

/** The condition that a database has no tables of the shares. So it is not one of several servers, and has never been. */
export function hasNoShares(schema: string): string {
  return `to_regclass('${schema}.${LAST_TABLE}') IS NULL`
}

/**
 * The condition that a database with the tables of the shares has all messages of its store: it is the home, and all shares are its
 * own, or they have not been divided yet. Whoever takes shares away locks `own_shares`, and so waits for the statement.
 */
export function hasAllShares(schema: string): string {
  return `NOT EXISTS (SELECT FROM ${schema}.server WHERE number > 0)
    AND NOT EXISTS (SELECT FROM ${schema}.shares WHERE server > 0 OR next IS NOT NULL)
    AND NOT EXISTS (SELECT FROM ${schema}.former_shares WHERE up_to IS NULL)
    AND ((SELECT count(*) FROM ${schema}.own_shares) = ${SHARES} OR NOT EXISTS (SELECT FROM ${schema}.shares))`
}

/** What a server knows of the others, if it is one of several. */
export interface Others {
  /** The name of this server. */
  own: string
  /** The names of those that may have messages of the store. Only the home knows the names. */
  names: string[]
}

/** Which servers a process misses that uses a server alone; `undefined` if this one has all messages of its store. */
export async function othersOf(connection: Querying, schema: string): Promise<Others | undefined> {
  if (!(await hasTable(connection, schema, LAST_TABLE))) return undefined
  const [others] = await connection.query<Others>(`
    SELECT name AS own, ARRAY (
        SELECT s.name FROM ${schema}.servers s WHERE s.number > 0 AND s.number IN (
          SELECT server FROM ${schema}.shares UNION SELECT next FROM ${schema}.shares
          UNION SELECT server FROM ${schema}.former_shares WHERE up_to IS NULL
        ) ORDER BY s.number
      ) AS names
    FROM ${schema}.server WHERE NOT (${hasAllShares(schema)})`)
  return others && { ...others, names: others.names.length > 0 ? others.names : ['other servers'] }
}

/** The names of the servers from which shares came to the home, as long as they may have messages of that time. */
export async function formerServersOf(connection: Querying, schema: string): Promise<string[]> {
  if (!(await hasTable(connection, schema, LAST_TABLE))) return []
  const text = `
    SELECT name FROM ${schema}.servers WHERE number > 0 AND number IN (SELECT server FROM ${schema}.former_shares) ORDER BY number`
  return (await connection.query<{ name: string }>(text)).map(({ name }) => name)
}

/**
 * The error of a process that knows only one of several servers.
 *
 * @param server - The servers that can't be asked, if what this one has is not affected.
 */
export function notAlone({ own, names }: Others, server?: string): StoreError {
  return new StoreError(
    'failed',
    `store: this database has become the server ${own} of a store with several servers, and ${names.join(', ')} may have messages ` +
      'of it, too: start this process again with the present settings, which name all of them in "store".',
    { isUnreachable: true, ...(server !== undefined && { server }) },
  )
}

/**
 * Refuses to use a server alone that is one of several: what the others have would not be delivered, and what came to them would
 * not be recognized if it came again.
 *
 * @throws StoreError `unsupported`
 */
export async function refuseOneOfSeveral(connection: Querying, schema: string): Promise<void> {
  const others = await othersOf(connection, schema)
  if (!others) return
  throw new StoreError(
    'unsupported',
    `store: this database is the server ${others.own} of a store with several servers: name all of them in "store". ` +
      'The home can be used alone, and moved by migrate, once it has all shares (`hookline-destination store move`).',
  )
}
