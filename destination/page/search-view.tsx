import { useSignal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import { get, query } from './api.js'
import { counted } from './format.js'
import type { DeliveryList } from '../src/model/answers.js'
import { DeliveryRow } from './rows.js'
import { toApiError } from './state.js'
import { missing } from './words.js'

const SHOWN = 10

const WAYS = [
  { field: 'messageId', words: 'Message id' },
  { field: 'user', words: 'User id' },
  { field: 'event', words: 'Event' },
] as const

/** Searches for message ids, user ids and events that start with the text, in upper or lower case. */
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
    get<DeliveryList>(
      `/deliveries${query({ [field]: text, match: 'prefix', limit: SHOWN })}`,
      controller.signal,
    )
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
  const { deliveries = [], next, isComplete, away } = list.value ?? {}
  return (
    <section class="found" aria-label={words} aria-busy={list.value === undefined}>
      <h2 class="break">
        {words} “{text}”
      </h2>
      {problem.value && <p class="error">{problem.value}</p>}
      {list.value !== undefined && deliveries.length === 0 && (
        <p class="empty">
          {isComplete
            ? 'No delivery found.'
            : away
              ? missing(away)
              : 'No delivery found among the newest ones. The search stopped at its time limit.'}
        </p>
      )}
      <div class="list">
        <ul class="rows">
          {deliveries.map((delivery) => (
            <li data-row key={delivery.id}>
              <DeliveryRow delivery={delivery} />
            </li>
          ))}
        </ul>
      </div>
      {typeof next === 'string' && field !== 'messageId' && (
        <p>
          <a href={`#/deliveries${query({ [field]: text, match: 'prefix' })}`}>
            {deliveries.length === 0
              ? 'Search older deliveries'
              : `There are more than ${counted(deliveries.length, 'delivery', 'deliveries')}: show all`}
          </a>
        </p>
      )}
    </section>
  )
}
