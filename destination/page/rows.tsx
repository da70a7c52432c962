import { clock } from './format.js'
import type { Summary } from '../src/model/delivery.js'
import { now } from './state.js'
import { outcome, stateInWords } from './words.js'

/** A call by its type and event: `track “Signed Up”`. */
export function Call({ type, event }: { type: string; event: string }) {
  return (
    <>
      {type}
      {event !== '' && <> “{event}”</>}
    </>
  )
}

export function StatePill({ state }: Pick<Summary, 'state'>) {
  return <span class={`pill state-${state}`}>{stateInWords(state)}</span>
}

/** The outcome of the last attempt in words. */
function LastAnswer({ delivery }: { delivery: Summary }) {
  const { lastCode, lastStatus, reason, state, attempt } = delivery
  if (state === 'skipped') return <>{reason}</>
  if (lastCode === null) return <>no attempt yet</>
  return (
    <>
      {lastStatus !== null && `${lastStatus}, `}
      {outcome(lastCode)}
      {attempt > 1 && `, attempt ${attempt}`}
    </>
  )
}

let lastOpened = ''

/** Focuses the row that was opened last, so that keyboard users continue at the same place in the list. */
export function focusLastOpened(): void {
  const { activeElement } = document
  if (activeElement !== document.body && !activeElement?.matches('h1')) return
  document.querySelector<HTMLElement>(`a.row[href="${lastOpened}"]`)?.focus()
}

/** One delivery of a list: the row is a link. */
export function DeliveryRow({ delivery }: { delivery: Summary }) {
  const { id, type, event, user, destination, state, receivedAt } = delivery
  const href = `#/deliveries/${id}`
  const remember = () => {
    lastOpened = href
  }
  return (
    <a class="row" href={href} onClick={remember}>
      <span class="when">{clock(receivedAt, now.peek())}</span>
      <StatePill state={state} />
      <span class="what">
        <Call type={type} event={event} />
      </span>
      <span class="who">{user}</span>
      <span class="where">{destination === '' ? 'no destination' : destination}</span>
      <span class="answer">
        <LastAnswer delivery={delivery} />
      </span>
    </a>
  )
}
