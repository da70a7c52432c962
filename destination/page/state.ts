// The state that all views share, and the polling that keeps it up to date.
import { computed, signal } from '@preact/signals'
import { ApiError, get, token } from './api.js'
import type { EndpointHistories, Status } from '../src/model/answers.js'
import { poll } from './poll.js'
import { sentences } from './words.js'

const STATUS_MS = 2_000
const HISTORY_MS = 10_000

export const status = signal<Status | undefined>(undefined)
export const histories = signal<EndpointHistories | undefined>(undefined)

/** Why the status could not be read; `undefined` if the last read succeeded. */
export const statusError = signal<ApiError | undefined>(undefined)

const REFUSALS = ['no_admin_token', 'wrong_admin_token', 'admin_disabled']

/** Whether the destination refuses to show anything without the right admin token. */
export const isRefused = computed(() => REFUSALS.includes(statusError.value?.code ?? ''))

/** When the status was last read: ms since the epoch, by the browser's clock. */
export const lastReadAt = signal<number | undefined>(undefined)

/** How far the destination's clock is ahead of the browser's, in ms. All times on the page are by the destination's clock. */
const aheadMs = signal(0)

/** The time by the destination's clock, in ms since the epoch. It changes once a second. */
export const now = signal(Date.now())

export const news = computed(() =>
  status.value === undefined ? [] : sentences(status.value, histories.value),
)

export const canWrite = computed(() => status.value?.canWrite === true)
export const deadCount = computed(() =>
  (status.value?.destinations ?? []).reduce((total, { dead }) => total + dead, 0),
)

/** A short notice in a corner of the page, which screen readers announce. */
export const toast = signal('')

export function start(): void {
  setInterval(() => {
    now.value = Date.now() + aheadMs.value
  }, 1_000)
  let ends: (() => void)[] = []
  // Signals call a new subscriber at once: this starts the polling, and restarts it when the token changes.
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
    statusError.value = undefined
    lastReadAt.value = Date.now()
  } catch (error) {
    if (abort?.aborted) return
    statusError.value = toApiError(error)
    if (isRefused.value) status.value = undefined // who has forgotten the token sees nothing more
  }
}

async function readHistory(abort: AbortSignal): Promise<void> {
  try {
    histories.value = await get<EndpointHistories>('/history?minutes=60', abort)
  } catch {
    // The status is read more often, and its failure is shown.
  }
}

export function toApiError(error: unknown): ApiError {
  return error instanceof ApiError ? error : new ApiError('unknown', String(error))
}
