import { useSignal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import { get, query } from './api.js'
import { counted } from './format.js'
import type { DeliveryList } from '../src/model/answers.js'
import { DeliveryRow } from './rows.js'
import { toApiError } from './state.js'

const SHOWN = 10

const WAYS = [
  { field: 'messageId', words: 'Message id' },
  { field: 'user', words: 'User id' },
  { field: 'event', words: 'Event' },
] as const

/** What was typed may be any of three things: it is looked for as each. */
export function SearchView({ text }: { text: string }) {
  return (
    <>
      {WAYS.map(({ field, words }) => (
        <Found field={field} words={words} text={text} key={field} />
      ))}
    </>
  )
}

function Found({ field, words, text }: { field: string; words: string; text: string }) {
  const list = useSignal<DeliveryList | undefined>(undefined)
  const problem = useSignal('')
  useEffect(() => {
    const controller = new AbortController()
    get<DeliveryList>(`/deliveries${query({ [field]: text, limit: SHOWN })}`, controller.signal)
      .then((found) => {
        list.value = found
      })
      .catch((error: unknown) => {
        if (!controller.signal.aborted) problem.value = toApiError(error).message
      })
    return () => {
      controller.abort()
    }
  }, [])
  const { deliveries = [], next, isComplete } = list.value ?? {}
  return (
    <section aria-label={words} aria-busy={list.value === undefined}>
      <h2 class="break">
        {words} “{text}”
      </h2>
      {problem.value && <p class="error">{problem.value}</p>}
      {list.value !== undefined && deliveries.length === 0 && (
        <p class="empty">
          {isComplete ? 'None.' : 'None among the newest; the time for one search is over.'}
        </p>
      )}
      <ul class="rows">
        {deliveries.map((delivery) => (
          <li data-row key={delivery.id}>
            <DeliveryRow delivery={delivery} />
          </li>
        ))}
      </ul>
      {typeof next === 'string' && field !== 'messageId' && (
        <p>
          <a href={`#/deliveries${query({ [field]: text })}`}>
            {deliveries.length === 0
              ? 'Search further back'
              : `More than ${counted(deliveries.length, 'delivery', 'deliveries')}: all of them`}
          </a>
        </p>
      )}
    </section>
  )
}
