import { randomUUID } from 'node:crypto'
import type { DeliveryId, Lane, NewDelivery } from '../../model/delivery.js'
import { LANES } from '../states.js'
import { fromStored, toStored } from '../text.js'
import type { Connection } from './connection.js'

/** In ms: the wait before a lost connection is opened again. */
const RECONNECT_MS = 1_000

/** In ms: the time between two checks whether the connection still works. */
const CHECK_MS = 15_000

/** In bytes. A payload must be shorter than 8,000: https://www.postgresql.org/docs/current/sql-notify.html */
const MAX_PAYLOAD_BYTES = 7_900

/** A notification need not survive a crash of the server. So its commit does not wait for the disk. */
const NOTIFY = `
  SELECT set_config('synchronous_commit', 'off', true) UNION ALL
  SELECT pg_notify($1, payload)::text FROM unnest($2::text[]) AS payloads (payload)`

/** Stands for the lane in the payload that says that records have changed. Versions that do not know it ignore it. */
const RECORDS = 'records'

/** The same for a payload with the ids of leased deliveries that were deleted. */
const REMOVED = 'removed'

/** The most ids of a payload. An id has at most 16 digits. */
const MAX_IDS = 400

/** Notifies other processes of puts, deletions and changed records, and listens for their notifications on a connection of its own. */
export class Notifications {
  readonly #channel: string
  readonly #connection: Connection
  /** The payloads that are to be sent. All puts during one notification share the next one. */
  readonly #untold = new Set<string>()
  #isTelling = false
  #isListening = false
  /** Marks the payloads of this process, so that it ignores them. */
  readonly #origin = randomUUID()
  #listener: ((destination: string, lane: Lane) => void) | undefined
  readonly #recordsListeners: (() => void)[] = []
  readonly #gone: (ids: readonly DeliveryId[]) => Promise<DeliveryId[]>
  /** The deliveries that others say they have deleted, as far as that is not known to be true yet. */
  readonly #saidToBeGone = new Set<DeliveryId>()
  #isChecking = false
  #removedListener: ((ids: readonly DeliveryId[]) => void) | undefined
  #client: ReturnType<Connection['createClient']> | undefined
  #timer: NodeJS.Timeout | undefined
  #isClosed = false

  /**
   * @param schema - The schema's name in double quotes, as in statements.
   * @param gone - Which of some deliveries are not stored any more.
   */
  constructor(
    connection: Connection,
    schema: string,
    gone: (ids: readonly DeliveryId[]) => Promise<DeliveryId[]>,
  ) {
    this.#connection = connection
    this.#gone = gone
    this.#channel = `hookline_put_${schema.slice(1, -1)}`
  }

  /**
   * Notifies the other processes of deliveries that are committed: once for each lane that got any. Leased deliveries need
   * no notification.
   *
   * This is not part of the put's transaction: the server's queue of notifications may be full, because a session of any
   * database on the server does not read it, and commits that notify wait for each other. A failure is ignored, because
   * workers look for due deliveries once a second anyway.
   */
  tellPut(deliveries: NewDelivery[]): void {
    for (const { destination, state } of deliveries) {
      if (!isLane(state)) continue
      this.#untold.add(JSON.stringify([this.#origin, state, toStored(destination)]))
    }
    if (!this.#isTelling) void this.#tellAll()
  }

  /** Notifies the other processes that records have changed. As {@link tellPut}, it is not reliable. */
  tellRecords(): void {
    this.#untold.add(JSON.stringify([this.#origin, RECORDS]))
    if (!this.#isTelling) void this.#tellAll()
  }

  /**
   * Tells the listener of this process, and notifies the others, that leased deliveries were deleted. As {@link tellPut}, it is not
   * reliable.
   */
  tellRemoved(ids: readonly DeliveryId[]): void {
    this.#removedListener?.(ids)
    for (let i = 0; i < ids.length; i += MAX_IDS) {
      this.#untold.add(JSON.stringify([this.#origin, REMOVED, ids.slice(i, i + MAX_IDS)]))
    }
    if (!this.#isTelling) void this.#tellAll()
  }

  listenToRemovals(listener: (ids: readonly DeliveryId[]) => void): void {
    this.#removedListener = listener
    this.#listen()
  }

  listenToPuts(listener: (destination: string, lane: Lane) => void): void {
    this.#listener = listener
    this.#listen()
  }

  listenToRecords(listener: () => void): void {
    this.#recordsListeners.push(listener)
    this.#listen()
  }

  #listen(): void {
    if (this.#isListening || this.#isClosed) return
    this.#isListening = true
    void this.#connect()
  }

  /** Tells the listener of this process that a lane has something due. */
  report(destination: string, lane: Lane): void {
    this.#listener?.(destination, lane)
  }

  close(): void {
    this.#isClosed = true
    clearTimeout(this.#timer)
    void this.#client?.end().catch(() => undefined)
  }

  async #tellAll(): Promise<void> {
    this.#isTelling = true
    while (this.#untold.size > 0) {
      const payloads = [...this.#untold].filter(
        (payload) => Buffer.byteLength(payload) <= MAX_PAYLOAD_BYTES,
      )
      this.#untold.clear()
      await this.#connection.query(NOTIFY, [this.#channel, payloads]).catch(() => undefined)
    }
    this.#isTelling = false
  }

  async #connect(): Promise<void> {
    const client = this.#connection.createClient()
    this.#client = client
    client.on('error', () => undefined)
    client.on('notification', ({ payload }) => {
      this.#receive(payload ?? '')
    })
    client.once('end', () => {
      this.#again(RECONNECT_MS, () => this.#connect())
    })
    try {
      await client.connect()
      await client.query(`LISTEN ${this.#channel}`)
      this.#again(CHECK_MS, () => this.#check(client))
    } catch {
      // Nothing is lost: the dispatcher claims once a second anyway, and its claims report the error.
      await client.end().catch(() => undefined)
      this.#again(RECONNECT_MS, () => this.#connect())
    }
  }

  /** Without this check, a connection whose other end has disappeared silently would look alive forever. */
  async #check(client: ReturnType<Connection['createClient']>): Promise<void> {
    try {
      await client.query('SELECT 1')
      this.#again(CHECK_MS, () => this.#check(client))
    } catch {
      await client.end().catch(() => undefined)
    }
  }

  #again(ms: number, work: () => Promise<void>): void {
    clearTimeout(this.#timer)
    if (this.#isClosed) return
    this.#timer = setTimeout(() => void work(), ms).unref()
  }

  #receive(payload: string): void {
    const [origin, about, what] = parsePayload(payload)
    if (origin === this.#origin) return
    if (about === RECORDS) for (const listener of this.#recordsListeners) listener()
    else if (about === REMOVED && Array.isArray(what)) {
      for (const id of what) if (Number.isSafeInteger(id)) this.#saidToBeGone.add(id as DeliveryId)
      if (!this.#isChecking) void this.#checkGone()
    } else if (isLane(about) && typeof what === 'string') {
      this.report(fromStored(what), about)
    }
  }

  /** Tells the listener of what is deleted indeed. What it is not told of for a failure, it finds out itself within a second. */
  async #checkGone(): Promise<void> {
    this.#isChecking = true
    while (this.#saidToBeGone.size > 0) {
      const ids = [...this.#saidToBeGone]
      this.#saidToBeGone.clear()
      const gone = await this.#gone(ids).catch(() => [])
      if (gone.length > 0) this.#removedListener?.(gone)
    }
    this.#isChecking = false
  }
}

/** The parts of a payload. Anyone who may log in to the database can send any text: one of another form has none. */
function parsePayload(payload: string): unknown[] {
  try {
    const parts: unknown = JSON.parse(payload)
    return Array.isArray(parts) ? (parts as unknown[]) : []
  } catch {
    return []
  }
}

function isLane(value: unknown): value is Lane {
  return LANES.some((lane) => lane === value)
}
