// The state that all views share, and the polling that keeps it up to date.
import { computed, signal } from '@preact/signals'
import { ApiError, get, query, token } from './api.js'
import type { Overview } from '../src/model/answers.js'
import { poll } from './poll.js'
import { isPortal } from './portal.js'
import { readPortal } from './portal-state.js'
import { route } from './route.js'
import { sentences } from './words.js'

const STATUS_MS = 3_000

/** What the overview shows, and what all views know of the destination. Other views get it without rows. */
export const status = signal<Overview | undefined>(undefined)

/** Why the status could not be read; `undefined` if the last read succeeded. */
export const statusError = signal<ApiError | undefined>(undefined)

const REFUSALS = [
  'no_admin_token',
  'wrong_admin_token',
  'admin_disabled',
  'no_portal_token',
  'wrong_portal_token',
  'portal_link_expired',
]

export const isRefusal = ({ code }: ApiError): boolean => REFUSALS.includes(code)

/** Whether the destination refuses to show anything without the right admin token. */
export const isRefused = computed(
  () => statusError.value !== undefined && isRefusal(statusError.value),
)

/** When the status was last read: ms since the epoch, by the destination's clock. */
export const lastReadAt = signal<number | undefined>(undefined)

/** How far the destination's clock is ahead of the browser's, in ms. All times on the page are by the destination's clock. */
const aheadMs = signal(0)

/** The time by the destination's clock, in ms since the epoch. */
export const time = (): number => Date.now() + aheadMs.peek()

/** The same as a signal, which changes once a second, and less often while the tab is hidden. */
export const now = signal(Date.now())

export const news = computed(() => (status.value === undefined ? [] : sentences(status.value)))

export const canWrite = computed(
  () => status.value !== undefined && status.value.access !== 'reader',
)
/** Whether settings may be changed. */
export const isAdmin = computed(() => status.value?.access === 'admin')
export const deadCount = computed(() => status.value?.totals.dead ?? 0)

/** In ms: how long a notice stays. Two short lines are read in this time. */
const TOAST_MS = 7_000

/** A short notice in a corner of the page, which screen readers announce. It disappears by itself. */
export const toast = signal('')

let toastTimer: ReturnType<typeof setTimeout> | undefined
toast.subscribe((text) => {
  clearTimeout(toastTimer)
  if (text === '') return
  toastTimer = setTimeout(() => {
    toast.value = ''
  }, TOAST_MS)
})

/** How many destinations one page of the table has. */
export const PAGE_ROWS = 25

const OVERVIEW_FIELDS = ['span', 'q', 'health', 'sort', 'order', 'offset'] as const

/** What the current view needs of the overview. */
const wanted = computed(() => {
  const { path, query: given } = route.value
  if (path.length > 0) return query({ limit: 0 })
  const fields = OVERVIEW_FIELDS.map((field) => [field, given.get(field) ?? ''] as const)
  return query({ ...Object.fromEntries(fields), limit: PAGE_ROWS })
})

export function start(): void {
  setInterval(() => {
    now.value = time()
  }, 1_000)
  let end: (() => void) | undefined
  // Signals call a new subscriber at once: this starts the polling, and restarts it when the token or the view changes.
  computed(() => [token.value, wanted.value]).subscribe(() => {
    end?.()
    end = poll(readStatus, STATUS_MS)
  })
}

export async function readStatus(abort?: AbortSignal): Promise<void> {
  try {
    const read = isPortal
      ? await readPortal(wanted.peek(), abort)
      : await get<Overview>(`/overview${wanted.peek()}`, abort)
    aheadMs.value = read.now - Date.now()
    // A view without rows keeps those of the overview, so that going back shows them at once.
    const { rows, found, span } = status.peek() ?? read
    const isWhole = route.peek().path.length === 0
    status.value = isWhole ? read : { ...read, rows, found, span }
    now.value = read.now
    statusError.value = undefined
    lastReadAt.value = read.now
  } catch (error) {
    if (abort?.aborted) return
    statusError.value = toApiError(error)
  }
}

/** The status of who has forgotten the token, so that nothing is shown to whoever sits down next. */
export function forgetStatus(): void {
  status.value = undefined
}

export function toApiError(error: unknown): ApiError {
  return error instanceof ApiError ? error : new ApiError('unknown', String(error))
}
