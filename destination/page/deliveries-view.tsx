import { useSignal } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'
import { get, query as queryOf } from './api.js'
import { clock, count, counted } from './format.js'
import type { DeliveryList } from '../src/model/answers.js'
import type { Summary } from '../src/model/delivery.js'
import { DeadGroups } from './dead-groups.js'
import { filterOf, isNarrow, toApi, toReplay, type Filter } from './filter.js'
import { FilterBar } from './filter-bar.js'
import { usePoll } from './poll.js'
import { openReplay } from './replay.js'
import { route } from './route.js'
import { DeliveryRow, focusLastOpened, listed, RowHeaders, rowsWhenOpened } from './rows.js'
import { now, toApiError } from './state.js'
import { missing } from './words.js'
import { serverOf } from '../src/store/server-ids.js'

const PAGE = 50
const REFRESH_MS = 3_000

/** In pixels: who has scrolled further than this reads, and new rows would move what they read. */
const READING_PX = 300

/** The list grows by so many new rows, and then begins again with the newest. Nobody scrolls through more. */
const MAX_ADDED = 500

/** Lists the deliveries that match the filter in the address. */
export function DeliveriesView() {
  const { query, hash } = route.value
  const filter = filterOf(query)
  return (
    <>
      <FilterBar filter={filter} />
      <Deliveries filter={filter} key={hash} />
    </>
  )
}

/** The list, newest first. Dead letters can be sent again, some or all of them. */
function Deliveries({ filter }: { filter: Filter }) {
  const rows = useSignal<Summary[]>([])
  /** The list with those that have come while somebody reads further down; empty if there are none. */
  const fresh = useSignal<Summary[]>([])
  /** Whether more new rows have come than are read at once, so that some would be missing between them and those that are shown. */
  const isApart = useSignal(false)
  const added = useRef(0)
  const next = useSignal<string | null>(null)
  const isComplete = useSignal(true)
  const away = useSignal<string[] | undefined>(undefined)
  const isReading = useSignal(true)
  const problem = useSignal('')
  const chosen = useSignal<ReadonlySet<number>>(new Set())
  const isDead = filter.state === 'dead'

  const ask = (before?: string, abort?: AbortSignal) =>
    get<DeliveryList>(
      `/deliveries${queryOf({ ...toApi(filter, now.peek()), before, limit: PAGE })}`,
      abort,
    )
  const show = (all: Summary[]) => {
    rows.value = all
    listed.value = all.map(({ id }) => id)
  }
  const begin = (page: DeliveryList) => {
    show(page.deliveries)
    chosen.value = new Set()
    isApart.value = false
    added.current = 0
  }
  const noteEnd = (page: DeliveryList) => {
    next.value = page.next
    isComplete.value = page.isComplete
    away.value = page.away
  }
  const read = async (before?: string) => {
    isReading.value = true
    problem.value = ''
    try {
      const page = await ask(before)
      if (before === undefined) begin(page)
      else show([...rows.value, ...page.deliveries])
      noteEnd(page)
      fresh.value = []
    } catch (error) {
      problem.value = toApiError(error).message
    }
    isReading.value = false
  }
  /** Shows new rows on top and the new states of those that are shown. What is chosen stays chosen. */
  const refresh = async (abort: AbortSignal) => {
    if (isReading.peek()) return
    const page = await ask(undefined, abort).catch(() => undefined)
    if (page === undefined || isReading.peek()) return
    const shown = rows.peek()
    const { known, all } = merge(shown, page, next.peek() === null)
    const more = all.length - known.length
    const isBusy = scrollY > READING_PX || chosen.peek().size > 0
    if (!isJoined(shown, page)) {
      if (isBusy) {
        isApart.value = true
        fresh.value = []
      } else {
        begin(page)
        noteEnd(page)
      }
    } else if (scrollY > READING_PX && more > 0) {
      show(known)
      fresh.value = all
    } else if (added.current + more > MAX_ADDED && !isBusy) {
      begin(page)
      noteEnd(page)
    } else {
      show(all)
      added.current += more
      fresh.value = []
    }
  }
  /** Who comes back from a delivery finds the list as long as it was. */
  const readAsBefore = async () => {
    await read()
    for (let shown = PAGE; shown < rowsWhenOpened(route.peek().hash); shown += PAGE) {
      if (next.peek() !== null && problem.peek() === '') await read(next.peek() ?? undefined)
    }
    focusLastOpened()
  }
  useEffect(() => void readAsBefore(), [])
  usePoll(refresh, REFRESH_MS, [])
  const readAgain = () => void read()
  const showFresh = () => {
    show(fresh.value)
    fresh.value = []
    scrollTo({ top: 0 })
  }
  const showNewest = () => {
    scrollTo({ top: 0 })
    void read()
  }

  return (
    <>
      {isDead && !isNarrow(filter) && <DeadGroups onReplayed={readAgain} />}
      {isDead && rows.value.length > 0 && (
        <DeadLetterBar rows={rows.value} chosen={chosen} filter={filter} onReplayed={readAgain} />
      )}
      {problem.value && (
        <p class="error" role="alert">
          {problem.value}
        </p>
      )}
      {isApart.value && (
        <button type="button" class="fresh primary" onClick={showNewest}>
          Show the newest deliveries
        </button>
      )}
      {!isApart.value && fresh.value.length > 0 && (
        <button type="button" class="fresh primary" onClick={showFresh}>
          Show {counted(fresh.value.length - rows.value.length, 'new delivery', 'new deliveries')}
        </button>
      )}
      <div class={isDead ? 'list choosing' : 'list'}>
        {rows.value.length > 0 && <RowHeaders />}
        <ul class="rows" aria-busy={isReading.value}>
          {rows.value.map((delivery) => (
            <li data-row key={delivery.id} class={isDead ? 'choosable' : ''}>
              {isDead && <Choose delivery={delivery} chosen={chosen} />}
              <DeliveryRow delivery={delivery} />
            </li>
          ))}
        </ul>
      </div>
      {rows.value.length === 0 && !isReading.value && problem.value === '' && isComplete.value && (
        <p class="empty">{emptyWords(filter)}</p>
      )}
      {away.value && <p class="hint">{missing(away.value)}</p>}
      {!isComplete.value && !away.value && (
        <p class="hint">
          {rows.value.length === 0 && 'Nothing has been found so far. '}
          The search stopped at its time limit. Older deliveries may match.
        </p>
      )}
      {next.value !== null && (
        <div class="actions">
          <button
            type="button"
            disabled={isReading.value}
            onClick={() => void read(next.value ?? undefined)}
          >
            {isComplete.value || away.value ? 'Show older' : 'Search older deliveries'}
          </button>
        </div>
      )}
    </>
  )
}

/**
 * Brings the newest page and the rows together. Deliveries may come anywhere in a list, because their states change. A row that the
 * page would have and does not has left the filter. Only the ids of one server of the store are in the order of the list.
 *
 * @param isAll - Whether the rows were everything that matched.
 * @returns the rows as they are now, and the list with the new ones.
 */
function merge(rows: readonly Summary[], page: DeliveryList, isAll: boolean) {
  const { deliveries, next, isComplete, away } = page
  const found = new Map(deliveries.map((one) => [one.id, one]))
  const oldest = new Map(deliveries.map(({ id }) => [serverOf(id), id]))
  const isCovered = (id: number) =>
    isComplete && (id >= (oldest.get(serverOf(id)) ?? Infinity) || (isAll && next === null))
  const known = rows.flatMap((row) => found.get(row.id) ?? (isCovered(row.id) ? [] : [row]))
  // The rows of a server that is away stay where they are.
  const all = away
    ? [...without(deliveries, known), ...known]
    : [...deliveries, ...without(known, deliveries)]
  return { known, all }
}

function without(some: readonly Summary[], others: readonly Summary[]): Summary[] {
  const ids = new Set(others.map(({ id }) => id))
  return some.filter(({ id }) => !ids.has(id))
}

/** Whether no delivery can be missing between those that are shown and the newest page. */
function isJoined(shown: readonly Summary[], { deliveries, next, isComplete }: DeliveryList) {
  if (deliveries.length === 0 || (next === null && isComplete)) return true
  return without(deliveries, shown).length < deliveries.length
}

function emptyWords(filter: Filter): string {
  if (filter.state === 'dead') {
    return isNarrow(filter) ? 'No dead letter matches this filter.' : 'There are no dead letters.'
  }
  return Object.keys(filter).length === 0
    ? 'No delivery has been stored yet.'
    : 'No delivery matches this filter.'
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
  filter: Filter
  onReplayed: () => void
}

function DeadLetterBar({ rows, chosen, filter, onReplayed }: DeadLetterBarProps) {
  const areAll = rows.every(({ id }) => chosen.value.has(id))
  const chooseAll = () => {
    chosen.value = new Set(areAll ? [] : rows.map(({ id }) => id))
  }
  const replayChosen = () => {
    openReplay({ ids: Array.from(chosen.value) }, onReplayed)
  }
  const replayAll = () => {
    const request = isNarrow(filter)
      ? { filter: toReplay(filter, now.peek()) }
      : { all: true as const }
    openReplay(request, onReplayed)
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
        {isNarrow(filter) ? 'Send all matching again …' : 'Send all again …'}
      </button>
    </div>
  )
}
