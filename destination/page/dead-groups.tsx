import { useSignal } from '@preact/signals'
import { get, query } from './api.js'
import { clock, count, counted, exactly } from './format.js'
import type { DeadCauses } from '../src/model/answers.js'
import type { DeadGroup } from '../src/model/delivery.js'
import { filterOfGroup, hashOf, toReplay } from './filter.js'
import { usePoll } from './poll.js'
import { openReplay } from './replay.js'
import { whyInWords } from './rows.js'
import { now, toApiError } from './state.js'
import { missing, outcome } from './words.js'

const REFRESH_MS = 10_000

/** How many groups are shown before somebody asks for the others. */
const SHOWN = 6

interface Props {
  /** Only its dead letters; all without it. */
  destination?: string | undefined
  /** Called after a group was replayed. */
  onReplayed?: () => void
}

/** The dead letters by what they died of, the largest group first. Each group can be shown and sent again alone. */
export function DeadGroups({ destination, onReplayed }: Props) {
  const found = useSignal<DeadCauses | undefined>(undefined)
  const problem = useSignal('')
  const isOpen = useSignal(false)
  const read = async (abort?: AbortSignal) => {
    try {
      found.value = await get<DeadCauses>(`/dead${query({ destination })}`, abort)
      problem.value = ''
    } catch (error) {
      if (!abort?.aborted) problem.value = toApiError(error).message
    }
  }
  usePoll(read, REFRESH_MS, [destination])
  if (problem.value !== '') return <p class="error">{problem.value}</p>
  const { groups = [], isComplete = true, away } = found.value ?? {}
  if (groups.length === 0) return null
  const shown = isOpen.value ? groups : groups.slice(0, SHOWN)
  const replayed = () => {
    void read()
    onReplayed?.()
  }
  return (
    <section class="card groups" aria-labelledby="causes">
      <div class="title">
        <h2 id="causes">By cause</h2>
        {away && <p class="hint">{missing(away)}</p>}
        {!isComplete && !away && <p class="hint">These are not all dead letters.</p>}
      </div>
      <ul>
        {shown.map((group) => (
          <Group
            group={group}
            hasName={destination === undefined}
            onReplayed={replayed}
            key={JSON.stringify([group.destination, group.code, group.status, group.cause])}
          />
        ))}
      </ul>
      {groups.length > SHOWN && (
        <button
          type="button"
          onClick={() => {
            isOpen.value = !isOpen.value
          }}
        >
          {isOpen.value ? 'Show fewer' : `Show all ${count(groups.length)} causes`}
        </button>
      )}
    </section>
  )
}

function Group({
  group,
  hasName,
  onReplayed,
}: {
  group: DeadGroup
  hasName: boolean
  onReplayed: () => void
}) {
  const { destination, code, status, cause, count: many, firstAt, lastAt } = group
  const filter = filterOfGroup(group)
  const what = status === null ? outcome(code ?? 'not sent') : String(status)
  const replay = () => {
    openReplay({ filter: toReplay(filter, now.peek()) }, onReplayed)
  }
  return (
    <li>
      <span class="many">
        {count(many)}
        <span aria-hidden="true"> ×</span>
        <span class="sr"> {many === 1 ? 'dead letter' : 'dead letters'}:</span>
      </span>
      <span class="why">
        <a href={hashOf(filter)}>
          <b>{what}</b> {status === null || code === null ? cause : whyInWords(code, cause)}
        </a>
        <span class="hint">
          {hasName && `${destination}, `}
          <time title={exactly(firstAt)}>{clock(firstAt, now.value)}</time>
          {lastAt - firstAt >= 1_000 && (
            <>
              {' '}
              to <time title={exactly(lastAt)}>{clock(lastAt, now.value)}</time>
            </>
          )}
        </span>
      </span>
      <button type="button" class="small" onClick={replay}>
        Send again …
        <span class="sr">
          {counted(many, 'dead letter')}: {what} {cause}
        </span>
      </button>
    </li>
  )
}
