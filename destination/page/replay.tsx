import { signal, useSignal } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'
import { openTokenDialog } from './access.js'
import { post } from './api.js'
import { isUnanswered, untilAnswered } from './asking.js'
import { useClosedWithView } from './dialog.js'
import { focusSoon, LateAnswer, single } from './form.js'
import { count as number, counted } from './format.js'
import type { Replayed, ReplayRequest } from '../src/model/answers.js'
import { canWrite, isRefused, readStatus, toApiError, toast } from './state.js'
import { missing } from './words.js'

interface OpenReplay {
  request: ReplayRequest
  onReplayed: () => void
  /** As of when they were counted. What becomes a dead letter later is not sent, also not by a repeat. */
  asOf?: number | undefined
}

const open = signal<OpenReplay | undefined>(undefined)

/**
 * Opens the dialog that counts the matching deliveries and sends them again on request. If the settings have no
 * admin token, a dialog says so instead.
 */
export function openReplay(request: ReplayRequest, onReplayed: () => void): void {
  if (canWrite.value) open.value = { request, onReplayed }
  else openTokenDialog()
}

function close(): void {
  open.value = undefined
}

export function ReplayDialog() {
  const dialog = useRef<HTMLDialogElement>(null)
  const isShown = open.value !== undefined && !isRefused.value
  useClosedWithView(close)
  useEffect(() => {
    if (isShown) dialog.current?.showModal()
    else dialog.current?.close()
  }, [isShown])
  const end = () => {
    // The question for the token closes the dialog, too. What was to be sent again then waits for the token.
    if (!isRefused.peek()) close()
  }
  return (
    <dialog ref={dialog} onClose={end} aria-labelledby="replay-title">
      {isShown && open.value && <Steps opened={open.value} />}
    </dialog>
  )
}

function Steps({ opened }: { opened: OpenReplay }) {
  const { request, onReplayed } = opened
  const actions = useRef<HTMLDivElement>(null)
  const controller = useRef(new AbortController())
  const dryRunResult = useSignal<Replayed | undefined>(undefined)
  const problem = useSignal('')
  const isSending = useSignal(false)
  const count = async () => {
    const counted = await post<Replayed>('/replay', {
      ...request,
      dryRun: true,
      asOf: opened.asOf,
    })
    opened.asOf = counted.asOf
    return counted
  }
  /** Nobody knows what became of a request without an answer, and a browser may have repeated it. So they are counted again. */
  const explain = async (error: unknown, before: Replayed) => {
    const isLost = isUnanswered(error)
    const { code, message } = toApiError(error)
    if (open.peek() !== opened) {
      // It was closed meanwhile, and only a notice still reaches the person.
      toast.value = isLost ? `${message} It may have sent them.` : message
      return
    }
    problem.value = isLost
      ? `${message} It may have sent them. The page asks until it knows.`
      : message
    // If the token is no longer right, this asks for it, and then this dialog comes back.
    await readStatus()
    const now = await untilAnswered(count, controller.current.signal)
    if (!now) return
    dryRunResult.value = now
    const what = leftInWords(request, before, now)
    if (isLost) problem.value = `The answer was lost. ${what}`
    else if (code === 'count_changed') problem.value = what
    else problem.value = `${message} ${what}`
    onReplayed()
  }
  const send = async (confirmed: Replayed) => {
    isSending.value = true
    problem.value = ''
    const { matched: confirm, asOf } = confirmed
    try {
      const done = await post<Replayed>('/replay', { ...request, confirm, asOf })
      toast.value = `${counted(done.replayed, 'delivery', 'deliveries')} will be sent again.`
      // Meanwhile it may have been closed, and another one opened.
      if (open.peek() === opened) close()
      onReplayed()
      await readStatus()
    } catch (error) {
      await explain(error, confirmed)
      // The button that was pressed may be gone.
      focusSoon(() => actions.current?.querySelector('button'))
    }
    isSending.value = false
  }
  useEffect(() => {
    count().then(
      (counted) => {
        dryRunResult.value = counted
      },
      (error: unknown) => {
        problem.value = toApiError(error).message
        void readStatus()
      },
    )
    return () => {
      controller.current.abort()
    }
  }, [])

  const found = dryRunResult.value
  return (
    <>
      <h2 id="replay-title">Send again?</h2>
      <LateAnswer />
      {problem.value && (
        <p class="error" role="alert">
          {problem.value}
        </p>
      )}
      <div aria-live="polite">
        {found && (
          <>
            {(problem.value === '' || found.matched > 0) && <p>{inWords(request, found)}</p>}
            {found.byDestination.length > 0 && (
              <ul>
                {found.byDestination.map(({ name, count: of }) => (
                  <li key={name}>
                    {name}: {number(of)}
                  </li>
                ))}
              </ul>
            )}
            {found.kept.map(({ name, count: of }) => (
              <p class="hint" key={name}>
                {counted(of, 'delivery stays', 'deliveries stay')} as{' '}
                {of === 1 ? 'it is' : 'they are'}: the settings have no enabled destination {name}.
              </p>
            ))}
            {found.away && <p class="hint">{missing(found.away)}</p>}
            {found.matched > 0 && (
              <p class="hint">
                Each delivery gets a new 4-hour retry window, and endpoints that refused it are
                tried again. Receivers recognise duplicates by the message id.
              </p>
            )}
          </>
        )}
        {!found && problem.value === '' && <p>Counting …</p>}
      </div>
      <div class="actions" ref={actions}>
        {found && found.matched > 0 && (
          <button
            type="button"
            class="primary"
            disabled={isSending.value}
            onClick={single(() => void send(found))}
          >
            Send {number(found.matched)} again
          </button>
        )}
        <button type="button" onClick={close}>
          {found?.matched === 0 ? 'Close' : 'Cancel'}
        </button>
      </div>
    </>
  )
}

function inWords(request: ReplayRequest, { matched }: Replayed): string {
  const what = request.force
    ? counted(matched, 'delivery', 'deliveries')
    : counted(matched, 'dead letter')
  return matched === 0 ? 'Nothing matches, so nothing is sent.' : `${what} would be sent again.`
}

/** What is left of what was counted, after a request that may have sent them. */
function leftInWords(request: ReplayRequest, before: Replayed, now: Replayed): string {
  const all = request.force
    ? counted(before.matched, 'delivery', 'deliveries')
    : counted(before.matched, 'dead letter')
  if (now.away) return 'What was sent is not known while a part of the store is away.'
  const keptOf = ({ kept }: Replayed) => kept.reduce((sum, { count }) => sum + count, 0)
  if (keptOf(now) > keptOf(before)) return `Of the ${all}, ${number(now.matched)} can be sent now.`
  if (now.matched > before.matched) return `There are ${number(now.matched)} now, and not ${all}.`
  if (now.matched === before.matched) return `As far as is known, nothing was sent of the ${all}.`
  const sent =
    'sent again or deleted meanwhile, probably by this request: a browser repeats it if the answer is lost.'
  if (now.matched > 0)
    return `Of the ${all}, ${number(now.matched)} are left. The others were ${sent}`
  return `None of the ${all} is left to send. They were ${sent}`
}
