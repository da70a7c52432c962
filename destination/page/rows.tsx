import { signal } from '@preact/signals'
import { clock, exactly, zone } from './format.js'
import type { Summary } from '../src/model/delivery.js'
import { route } from './route.js'
import { now } from './state.js'
import { outcome, stateInWords } from './words.js'

/** A call by its type and event: `track “Signed Up”`. */
export const callInWords = (type: string, event: string): string =>
  event === '' ? type : `${type} “${event}”`

/**
 * The same with the event apart, for what is shown: characters in it that change the direction of text, which callers choose,
 * must not move the words around it.
 */
export function Call({ type, event }: { type: string; event: string }) {
  return event === '' ? (
    <>{type}</>
  ) : (
    <>
      {type} “<bdi>{event}</bdi>”
    </>
  )
}

export function StatePill({ state }: Pick<Summary, 'state'>) {
  return <span class={`pill state-${state}`}>{stateInWords(state)}</span>
}

/** The outcome of the last attempt in words. */
function answerInWords(delivery: Summary): string {
  const { lastCode, lastStatus, reason, state, attempt, cause } = delivery
  if (state === 'skipped') return reason ?? ''
  if (lastCode === null) return state === 'dead' ? (reason ?? '') : 'no attempt yet'
  const words =
    lastStatus === null ? outcome(lastCode) : `${lastStatus} ${whyInWords(lastCode, cause)}`
  return attempt > 1 ? `${words}, attempt ${attempt}` : words
}

/** What the endpoint said, or else the code in words. An error of our own only says the status in other words. */
export function whyInWords(code: string, cause: string | null): string {
  return cause === null || cause === '' || cause.startsWith('The endpoint answered ')
    ? outcome(code)
    : cause
}

/** The ids of the list that was shown last, for "previous" and "next" of a delivery. */
export const listed = signal<readonly number[]>([])

/** The row that was opened last, in which view, and how many rows its list had. */
let lastOpened = { href: '', view: '', rows: 0 }

/** How many rows the list of this view had when one of them was opened last; 0 if none was. */
export function rowsWhenOpened(view: string): number {
  return lastOpened.view === view ? lastOpened.rows : 0
}

/** Focuses the row that was opened last, so that keyboard users continue at the same place in the list. */
export function focusLastOpened(): void {
  const { activeElement } = document
  if (activeElement !== document.body && !activeElement?.matches('h1')) return
  document.querySelector<HTMLElement>(`a.row[href="${lastOpened.href}"]`)?.focus()
}

/** The headers of the columns of {@link DeliveryRow}. Each row says the same in words, so screen readers skip them. */
export function RowHeaders() {
  return (
    <div class="row-headers" aria-hidden="true">
      <span>Received, {zone(now.peek())}</span>
      <span>State</span>
      <span>Call</span>
      <span>User</span>
      <span>Destination</span>
      <span>Latest answer</span>
    </div>
  )
}

/** One delivery of a list: the row is a link. */
export function DeliveryRow({ delivery }: { delivery: Summary }) {
  const { id, type, event, user, destination, state, receivedAt } = delivery
  const href = `#/deliveries/${id}`
  const remember = () => {
    lastOpened = { href, view: route.peek().hash, rows: listed.peek().length }
  }
  const call = callInWords(type, event)
  const to = destination === '' ? 'no destination' : destination
  const answer = answerInWords(delivery)
  return (
    <a class="row" href={href} onClick={remember}>
      <time class="when" title={exactly(receivedAt)}>
        {clock(receivedAt, now.peek())}
      </time>
      <StatePill state={state} />
      <span class="what" title={call}>
        <Call type={type} event={event} />
      </span>
      <span class="who" title={user}>
        {user}
      </span>
      <span class="where" title={to}>
        {to}
      </span>
      <span class="answer" title={answer}>
        {answer}
      </span>
    </a>
  )
}
