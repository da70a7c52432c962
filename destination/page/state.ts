// What the whole page shares, and how it is kept up to date.
import { computed, signal } from '@preact/signals'
import { ApiError, get, token } from './api.js'
import type { EndpointHistories, Status } from '../src/model/answers.js'
import { poll } from './poll.js'
import { sentences } from './words.js'

const STATUS_MS = 2_000
const HISTORY_MS = 10_000

export const status = signal<Status | undefined>(undefined)
export const histories = signal<EndpointHistories | undefined>(undefined)

/** Why the state could not be read; `undefined` while it can. */
export const trouble = signal<ApiError | undefined>(undefined)
/** When it could last be read, by the clock of this machine. */
export const lastReadAt = signal<number | undefined>(undefined)

/** The destination's clock is the one that counts: this is how far it is ahead of that of this machine, in ms. */
const aheadMs = signal(0)

/** Ticks once a second: the time there. */
export const now = signal(Date.now())

export const news = computed(() =>
  status.value === undefined ? [] : sentences(status.value, histories.value),
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
    ends = [poll(readStatus, STATUS_MS), poll(readHistory, HISTORY_MS)]
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
  } catch (error) {
    if (abort?.aborted) return
    trouble.value = toApiError(error)
  }
}

async function readHistory(abort: AbortSignal): Promise<void> {
  try {
    histories.value = await get<EndpointHistories>('/history?minutes=60', abort)
  } catch {
    // The state is read more often, and says it.
  }
}

export function toApiError(error: unknown): ApiError {
  return error instanceof ApiError ? error : new ApiError('unknown', String(error))
}
