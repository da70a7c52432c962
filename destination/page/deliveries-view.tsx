import { useSignal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import { CALL_TYPES } from '../src/model/call.js'
import { get, query } from './api.js'
import { clock, count } from './format.js'
import type { DeliveryList } from '../src/model/answers.js'
import type { Summary } from '../src/model/delivery.js'
import { openReplay } from './replay.js'
import { go, route } from './route.js'
import { DeliveryRow, focusLastOpened } from './rows.js'
import { now, status, toApiError } from './state.js'

const FIELDS = ['state', 'destination', 'source', 'type', 'event', 'user'] as const
type Field = (typeof FIELDS)[number]

const STATES = [
  ['', 'any state'],
  ['waiting', 'waiting'],
  ['dead', 'dead letters'],
  ['done', 'delivered'],
  ['skipped', 'skipped'],
] as const

const PAGE = 50

/** Lists the deliveries that match the filter, newest first. Dead letters can be sent again, some or all of them. */
export function DeliveriesView() {
  const filter = filterOf(route.value.query)
  const rows = useSignal<Summary[]>([])
  const next = useSignal<string | null>(null)
  const isComplete = useSignal(true)
  const isReading = useSignal(true)
  const problem = useSignal('')
  const chosen = useSignal<ReadonlySet<number>>(new Set())
  const isDead = filter.state === 'dead'

  const read = async (before?: string) => {
    isReading.value = true
    problem.value = ''
    try {
      const page = await get<DeliveryList>(
        `/deliveries${query({ ...filter, before, limit: PAGE })}`,
      )
      rows.value = before === undefined ? page.deliveries : [...rows.value, ...page.deliveries]
      next.value = page.next
      isComplete.value = page.isComplete
      if (before === undefined) chosen.value = new Set()
    } catch (error) {
      problem.value = toApiError(error).message
    }
    isReading.value = false
  }
  useEffect(() => void read().then(focusLastOpened), [])
  const readAgain = () => void read()

  return (
    <>
      <Filter filter={filter} />
      {isDead && rows.value.length > 0 && (
        <DeadLetterBar rows={rows.value} chosen={chosen} filter={filter} onReplayed={readAgain} />
      )}
      {problem.value && (
        <p class="error" role="alert">
          {problem.value}
        </p>
      )}
      <ul class="rows" aria-busy={isReading.value}>
        {rows.value.map((delivery) => (
          <li data-row key={delivery.id} class={isDead ? 'choosable' : ''}>
            {isDead && <Choose delivery={delivery} chosen={chosen} />}
            <DeliveryRow delivery={delivery} />
          </li>
        ))}
      </ul>
      {rows.value.length === 0 && !isReading.value && problem.value === '' && isComplete.value && (
        <p class="empty">{emptyWords(filter)}</p>
      )}
      {!isComplete.value && (
        <p class="hint">
          {rows.value.length === 0 && 'Nothing has been found so far. '}
          The search stopped at its time limit. Older deliveries may match.
        </p>
      )}
      <div class="actions">
        {next.value !== null && (
          <button
            type="button"
            disabled={isReading.value}
            onClick={() => void read(next.value ?? undefined)}
          >
            {isComplete.value ? 'Show older' : 'Search older deliveries'}
          </button>
        )}
        <button type="button" disabled={isReading.value} onClick={readAgain}>
          Refresh
        </button>
      </div>
    </>
  )
}

type FilterOf = Partial<Record<Field, string>>

function filterOf(given: URLSearchParams): FilterOf {
  return Object.fromEntries(
    FIELDS.flatMap((field) => {
      const value = given.get(field)
      return value === null || value === '' ? [] : [[field, value]]
    }),
  )
}

function emptyWords(filter: FilterOf): string {
  if (filter.state === 'dead') {
    return Object.keys(filter).length === 1
      ? 'There are no dead letters.'
      : 'No dead letter matches this filter.'
  }
  return Object.keys(filter).length === 0
    ? 'No delivery has been stored yet.'
    : 'No delivery matches this filter.'
}

/** Writes the filter into the address, so that the address can be shared. */
function Filter({ filter }: { filter: FilterOf }) {
  const apply = (event: Event) => {
    event.preventDefault()
    const data = new FormData(event.currentTarget as HTMLFormElement)
    const fields = FIELDS.map((field) => [field, (data.get(field) as string).trim()] as const)
    go(`#/deliveries${query(Object.fromEntries(fields))}`)
  }
  const { destinations = [], sources = [] } = status.peek() ?? {}
  const named = (all: readonly { name: string }[]) => all.map(({ name }) => [name, name] as const)
  return (
    <form class="filter" onSubmit={apply} onChange={apply} aria-label="Filter">
      <Select name="state" options={STATES} value={filter.state} />
      <Select
        name="destination"
        options={[['', 'any destination'], ...named(destinations)]}
        value={filter.destination}
      />
      <Select
        name="source"
        options={[['', 'any source'], ...named(sources)]}
        value={filter.source}
      />
      <Select
        name="type"
        options={[['', 'any type'], ...CALL_TYPES.map((type) => [type, type] as const)]}
        value={filter.type}
      />
      <input
        name="event"
        aria-label="Event"
        placeholder="Event"
        defaultValue={filter.event ?? ''}
      />
      <input name="user" aria-label="User" placeholder="User id" defaultValue={filter.user ?? ''} />
      <button type="submit">Filter</button>
    </form>
  )
}

interface SelectProps {
  name: string
  options: readonly (readonly [string, string])[]
  value: string | undefined
}

function Select({ name, options, value = '' }: SelectProps) {
  // The settings may no longer have the name, but old deliveries still do: it stays selectable.
  const all = options.some(([one]) => one === value) ? options : [...options, [value, value]]
  return (
    <select name={name} aria-label={name}>
      {all.map(([one, words]) => (
        <option value={one} selected={one === value} key={one}>
          {words}
        </option>
      ))}
    </select>
  )
}

interface Chosen {
  chosen: { value: ReadonlySet<number> }
}

function Choose({ delivery, chosen }: { delivery: Summary } & Chosen) {
  const { id, event, type, user, receivedAt } = delivery
  const toggle = (event: Event) => {
    const all = new Set(chosen.value)
    if ((event.currentTarget as HTMLInputElement).checked) all.add(id)
    else all.delete(id)
    chosen.value = all
  }
  return (
    <label class="choose">
      <input type="checkbox" checked={chosen.value.has(id)} onChange={toggle} />
      <span class="sr">
        Choose {event || type} of {user}, {clock(receivedAt, now.peek())}
      </span>
    </label>
  )
}

interface DeadLetterBarProps extends Chosen {
  rows: readonly Summary[]
  filter: FilterOf
  onReplayed: () => void
}

function DeadLetterBar({ rows, chosen, filter, onReplayed }: DeadLetterBarProps) {
  const areAll = rows.every(({ id }) => chosen.value.has(id))
  const rest = { ...filter }
  delete rest.state
  const chooseAll = () => {
    chosen.value = new Set(areAll ? [] : rows.map(({ id }) => id))
  }
  const replayChosen = () => {
    openReplay({ ids: Array.from(chosen.value) }, onReplayed)
  }
  const isFiltered = Object.keys(rest).length > 0
  const replayAll = () => {
    openReplay(isFiltered ? { filter: rest } : { all: true }, onReplayed)
  }
  return (
    <div class="actions bar">
      <label>
        <input type="checkbox" checked={areAll} onChange={chooseAll} /> Choose all{' '}
        {count(rows.length)} shown
      </label>
      <button type="button" disabled={chosen.value.size === 0} onClick={replayChosen}>
        Send chosen again{chosen.value.size > 0 && ` (${count(chosen.value.size)})`} …
      </button>
      <button type="button" onClick={replayAll}>
        {isFiltered ? 'Send all matching again …' : 'Send all again …'}
      </button>
    </div>
  )
}
