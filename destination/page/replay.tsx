import { signal, useSignal } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'
import { openTokenDialog } from './access.js'
import { post } from './api.js'
import { count, counted } from './format.js'
import type { Replayed, ReplayRequest } from '../src/model/answers.js'
import { canWrite, isRefused, readStatus, toApiError, toast } from './state.js'
import { missing } from './words.js'

interface OpenReplay {
  request: ReplayRequest
  onReplayed: () => void
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
      {isShown && open.value && <Steps {...open.value} />}
    </dialog>
  )
}

function Steps({ request, onReplayed }: OpenReplay) {
  const dryRunResult = useSignal<Replayed | undefined>(undefined)
  const problem = useSignal('')
  const isSending = useSignal(false)
  const ask = async (dryRun: boolean): Promise<Replayed | undefined> => {
    try {
      const confirm = dryRun ? undefined : dryRunResult.value?.matched
      return await post<Replayed>('/replay', { ...request, dryRun, confirm })
    } catch (error) {
      problem.value = toApiError(error).message
      // If the token is no longer right, this asks for it, and then this dialog comes back.
      await readStatus()
      return undefined
    }
  }
  const send = async () => {
    isSending.value = true
    const done = await ask(false)
    isSending.value = false
    if (done === undefined) return
    toast.value = `${counted(done.replayed, 'delivery', 'deliveries')} will be sent again.`
    close()
    onReplayed()
    await readStatus()
  }
  useEffect(() => {
    void ask(true).then((answer) => {
      dryRunResult.value = answer
    })
  }, [])

  const found = dryRunResult.value
  return (
    <>
      <h2 id="replay-title">Send again?</h2>
      {problem.value && (
        <p class="error" role="alert">
          {problem.value}
        </p>
      )}
      <div aria-live="polite">
        {found && (
          <>
            <p>{inWords(request, found)}</p>
            {found.byDestination.length > 0 && (
              <ul>
                {found.byDestination.map(({ name, count: of }) => (
                  <li key={name}>
                    {name}: {count(of)}
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
      <div class="actions">
        {found && found.matched > 0 && (
          <button
            type="button"
            class="primary"
            disabled={isSending.value}
            onClick={() => void send()}
          >
            Send {count(found.matched)} again
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
