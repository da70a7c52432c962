import { useSignal } from '@preact/signals'
import { get, query } from './api.js'
import { useChange } from './change.js'
import { count, counted } from './format.js'
import { Dialog } from './dialog.js'
import { Choice, Failure, TextField } from './form.js'
import { waitingIn } from '../src/model/delivery.js'
import type { DestinationDetails, ManagedSetting } from '../src/model/answers.js'
import type { WaitingChoice } from '../src/model/setting.js'
import { forgetKept } from './leaving.js'
import { usePoll } from './poll.js'
import { go } from './route.js'
import { hashOf, list, remove, type Kind } from './setting-kinds.js'
import { toApiError, toast } from './state.js'

const COSTS: Readonly<Record<Kind, string>> = {
  source:
    'Calls with its write key are refused from then on. What was accepted is still delivered.',
  destination: 'It gets no calls from then on. You choose what becomes of the messages that wait.',
  tenant: 'Its sources and destinations have to be deleted first.',
}

interface DeleteProps {
  item: ManagedSetting
  /** Shows a newer version of the item. */
  onNewer: (item: ManagedSetting) => void
}

/** Deletes a source, a destination or a tenant, after a dialog that says what this costs. */
export function DeleteCard({ item, onNewer }: DeleteProps) {
  const isOpen = useSignal(false)
  const { kind, name } = item
  return (
    <section class="card" aria-labelledby="delete">
      <h2 id="delete">Delete</h2>
      <p class="hint">{COSTS[kind]}</p>
      <div class="actions">
        <button
          type="button"
          class="danger"
          onClick={() => {
            isOpen.value = true
          }}
        >
          Delete {name} …
        </button>
      </div>
      {isOpen.value && (
        <Dialog
          title={`Delete the ${kind} ${name}?`}
          onClose={() => {
            isOpen.value = false
          }}
        >
          <Steps
            {...{ item, onNewer }}
            onCancel={() => {
              isOpen.value = false
            }}
          />
        </Dialog>
      )}
    </section>
  )
}

/** What a deletion costs. */
interface Costs {
  /** The destinations that take the calls of a source; at most {@link LISTED}. */
  takers: readonly string[]
  allTakers: number
  waiting: number
  dead: number
}

const NO_COSTS: Costs = { takers: [], allTakers: 0, waiting: 0, dead: 0 }

const LISTED = 20

/** In ms: messages may arrive or leave while the dialog is open. */
const COUNT_MS = 2_000

async function costsOf({ kind, name }: ManagedSetting, abort: AbortSignal): Promise<Costs> {
  if (kind === 'tenant') return NO_COSTS
  if (kind === 'source') {
    const { items, total } = await list('destination', { source: name, limit: LISTED }, abort)
    return { ...NO_COSTS, takers: items.map((one) => one.name), allTakers: total }
  }
  const details = await get<DestinationDetails>(`/destination${query({ name })}`, abort)
  return { ...NO_COSTS, waiting: waitingIn(details), dead: details.dead }
}

function Steps({ item, onNewer, onCancel }: DeleteProps & { onCancel: () => void }) {
  const costs = useSignal<Costs | undefined>(undefined)
  const choice = useSignal<WaitingChoice>('keep')
  const typed = useSignal('')
  const { failure, isAsking, change } = useChange(item, onNewer)
  const { name } = item
  usePoll(
    async (abort) => {
      try {
        costs.value = await costsOf(item, abort)
      } catch (error) {
        if (!abort.aborted && !costs.value) failure.value = toApiError(error).message
      }
    },
    COUNT_MS,
    [],
  )
  const found = costs.value
  const isDiscarding = found !== undefined && found.waiting > 0 && choice.value === 'discard'
  const leave = () => {
    forgetKept()
    go(`#/settings/${item.kind}s`)
  }
  const make = async () => {
    const given = found && found.waiting > 0 ? choice.value : undefined
    try {
      const { discarded, waiting } = await remove(item, given)
      toast.value = [
        `${name} is deleted.`,
        discarded > 0 && `${counted(discarded, 'message was', 'messages were')} deleted with it.`,
        waiting > 0 &&
          `${counted(waiting, 'message waits', 'messages wait')} for a new destination of this name.`,
      ]
        .filter((one) => one !== false)
        .join(' ')
      leave()
    } catch (error) {
      const { waiting } = toApiError(error).details
      if (waiting === undefined || !costs.value) throw error
      costs.value = { ...costs.value, waiting }
      failure.value = 'Messages have arrived meanwhile. Choose what becomes of them.'
    }
  }
  const submit = () =>
    change(make, {
      isDone: (there) => there === undefined,
      done: () => {
        toast.value = `${name} is deleted.`
        leave()
      },
    })
  const isUsed = found !== undefined && found.allTakers > 0
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault()
        void submit()
      }}
    >
      <div aria-live="polite">
        {!found && failure.value === '' && <p>Counting …</p>}
        {found && <Words item={item} costs={found} />}
      </div>
      {found && found.waiting > 0 && (
        <Choice<WaitingChoice>
          legend={`${counted(found.waiting, 'message waits', 'messages wait')} for it`}
          options={[
            ['keep', 'keep: they and a pause wait for a destination of this name'],
            ['discard', 'discard: they are deleted, and never sent'],
          ]}
          value={choice.value}
          onChange={(value) => {
            choice.value = value
          }}
        />
      )}
      {isDiscarding && (
        <TextField
          path="confirm"
          label={`Type ${name} to confirm`}
          value={typed.value}
          onChange={(value) => {
            typed.value = value
          }}
        />
      )}
      <Failure text={failure.value} />
      <div class="actions">
        {found && !isUsed && (
          <button
            type="submit"
            class="danger"
            disabled={isAsking.value || (isDiscarding && typed.value !== name)}
          >
            {isDiscarding ? `Delete it and ${counted(found.waiting, 'message')}` : `Delete ${name}`}
          </button>
        )}
        <button type="button" onClick={onCancel}>
          {isUsed ? 'Close' : 'Cancel'}
        </button>
      </div>
    </form>
  )
}

function Words({ item: { kind }, costs }: { item: ManagedSetting; costs: Costs }) {
  const { takers, allTakers, waiting, dead } = costs
  if (kind === 'destination') {
    return (
      <>
        <p>Its settings and its secrets can’t be brought back.</p>
        {waiting === 0 && <p>No message waits for it.</p>}
        {dead > 0 && (
          <p>
            {counted(dead, 'dead letter')} can’t be sent again without it, and{' '}
            {dead === 1 ? 'is' : 'are'} deleted after the retention.
          </p>
        )}
      </>
    )
  }
  if (kind === 'tenant') return <p>Its title and its quotas are deleted.</p>
  if (allTakers === 0) {
    return <p>No destination takes its calls. Clients that use its write key are answered 401.</p>
  }
  return (
    <>
      <p>
        {counted(allTakers, 'destination takes', 'destinations take')} its calls. Remove it there
        first:
      </p>
      <ul class="takers">
        {takers.map((taker) => (
          <li key={taker}>
            <a href={hashOf('destination', taker)}>{taker}</a>
          </li>
        ))}
        {allTakers > takers.length && <li>and {count(allTakers - takers.length)} more</li>}
      </ul>
    </>
  )
}
