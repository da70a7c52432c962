// What the whole page shares, and how it is kept up to date.
import { computed, signal } from '@preact/signals'
import { ApiError, get, query, token } from './api.js'
import type { DeliveryList, Health, Status, Trace } from './model.js'
import { poll } from './poll.js'
import { endpointKey, isDown, sentences, type LastFailure } from './words.js'

const STATUS_MS = 2_000
const HEALTH_MS = 10_000

export const status = signal<Status | undefined>(undefined)
export const health = signal<Health | undefined>(undefined)

/** Why the state could not be read; `undefined` while it can. */
export const trouble = signal<ApiError | undefined>(undefined)
/** When it could last be read, by the clock of this machine. */
export const lastReadAt = signal<number | undefined>(undefined)

/** The destination's clock is the one that counts: this is how far it is ahead of that of this machine, in ms. */
const aheadMs = signal(0)

/** Ticks once a second: the time there. */
export const now = signal(Date.now())

/** What endpoints answered last, where they took no message; by {@link endpointKey}. */
const failures = signal<ReadonlyMap<string, LastFailure>>(new Map())

export const news = computed(() =>
  status.value === undefined ? [] : sentences(status.value, health.value, failures.value),
)

export const canWrite = computed(() => status.value?.canWrite === true)
export const deadCount = computed(() =>
  (status.value?.destinations ?? []).reduce((total, { dead }) => total + dead, 0),
)

/** Says something in a corner, and to screen readers. */
export const toast = signal('')

export function start(): void {
  setInterval(() => {
    now.value = Date.now() + aheadMs.value
  }, 1_000)
  let ends: (() => void)[] = []
  // At once, and anew with another token.
  token.subscribe(() => {
    for (const end of ends) end()
    ends = [poll(readStatus, STATUS_MS), poll(readHealth, HEALTH_MS)]
  })
}

export async function readStatus(abort?: AbortSignal): Promise<void> {
  try {
    const read = await get<Status>('/status', abort)
    aheadMs.value = read.now - Date.now()
    status.value = read
    now.value = read.now
    trouble.value = undefined
    lastReadAt.value = Date.now()
    await readFailures(read)
  } catch (error) {
    if (abort?.aborted) return
    trouble.value = toApiError(error)
  }
}

async function readHealth(abort: AbortSignal): Promise<void> {
  try {
    health.value = await get<Health>('/health?minutes=60', abort)
  } catch {
    // The state is read more often, and says it.
  }
}

/** Finds what the endpoints that are down answered: in a message that waits for them. */
async function readFailures({ destinations }: Status): Promise<void> {
  const ill = destinations.filter(({ name, endpoints }) =>
    endpoints.some(
      ({ url, gate }) =>
        gate !== null && isDown(gate.state) && !failures.value.has(endpointKey(name, url)),
    ),
  )
  for (const { name } of ill) {
    const list = await get<DeliveryList>(
      `/deliveries${query({ state: 'waiting', destination: name, limit: 1 })}`,
    )
    const [first] = list.deliveries
    if (first === undefined) continue
    const { attempts } = await get<Trace>(`/deliveries/${first.id}`)
    for (const attempt of attempts) noteAnswer(name, attempt.url, attempt)
  }
}

/** Remembers what an endpoint answered; what was not sent tells nothing of it. */
export function noteAnswer(destination: string, url: string, answer: LastFailure): void {
  if (answer.code === 'endpoint_down' || answer.code === 'endpoint_busy') return
  const key = endpointKey(destination, url)
  const known = failures.value.get(key)
  if (answer.code === 'delivered') {
    if (known === undefined) return
    const rest = new Map(failures.value)
    rest.delete(key)
    failures.value = rest
    return
  }
  if (known?.code === answer.code && known.status === answer.status) return
  const { code, status, error } = answer
  failures.value = new Map(failures.value).set(key, { code, status, error })
}

export function toApiError(error: unknown): ApiError {
  return error instanceof ApiError ? error : new ApiError('unknown', String(error))
}
