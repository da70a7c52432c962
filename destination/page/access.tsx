// Who may see, and who may change. Reading is free on the machine of the destination; changing takes the admin token.
import { signal, useSignal } from '@preact/signals'
import type { ComponentChildren } from 'preact'
import { useEffect, useRef } from 'preact/hooks'
import { keepToken, token } from './api.js'
import { canWrite, readStatus, status, toast, trouble } from './state.js'

const isOpen = signal(false)

export function openTokenDialog(): void {
  isOpen.value = true
}

const REFUSED = ['no_admin_token', 'wrong_admin_token', 'admin_disabled']

/** Shows its children once the state may be read. */
export function AccessGate({ children }: { children: ComponentChildren }) {
  const code = trouble.value?.code
  if (code !== undefined && REFUSED.includes(code)) return <Closed />
  if (status.value !== undefined) return children
  if (trouble.value === undefined) return <p aria-busy="true">Reading the state …</p>
  return code === 'unreachable' ? null : <p class="error">{trouble.value.message}</p>
}

function Closed() {
  const isDisabled = trouble.value?.code === 'admin_disabled'
  return (
    <section class="card narrow">
      <h1 tabIndex={-1}>{isDisabled ? 'Not from here' : 'The admin token, please'}</h1>
      <p>
        Calls have personal data in them, so from another machine this page shows them only with the
        admin token.
      </p>
      {isDisabled ? (
        <>
          <p>
            The settings have no <code>adminToken</code>. Set one, or come by a tunnel to the
            machine and open <code>http://127.0.0.1:{location.port || '3300'}/</code>:
          </p>
          <pre>
            ssh -L {location.port || '3300'}:127.0.0.1:{location.port || '3300'} {location.hostname}
          </pre>
        </>
      ) : (
        <TokenForm />
      )}
    </section>
  )
}

export function TokenDialog() {
  const dialog = useRef<HTMLDialogElement>(null)
  useEffect(() => {
    if (isOpen.value) dialog.current?.showModal()
    else dialog.current?.close()
  }, [isOpen.value])
  const close = () => {
    isOpen.value = false
  }
  return (
    <dialog ref={dialog} onClose={close} aria-labelledby="token-title">
      {isOpen.value && (
        <>
          <h2 id="token-title">{canWrite.value ? 'You may replay' : 'You may look, not change'}</h2>
          {canWrite.value ? (
            <>
              <p>This tab has the admin token, until it is closed.</p>
              <div class="actions">
                <button type="button" onClick={forget}>
                  Forget the token
                </button>
                <button type="button" onClick={close}>
                  Close
                </button>
              </div>
            </>
          ) : status.value?.hasToken === false ? (
            <>
              <p>
                Sending again takes the admin token, and the settings have none. Set{' '}
                <code>adminToken</code> and reload them.
              </p>
              <div class="actions">
                <button type="button" onClick={close}>
                  Close
                </button>
              </div>
            </>
          ) : (
            <>
              <p>Sending dead letters again takes the admin token of the settings.</p>
              <TokenForm onDone={close} />
            </>
          )}
        </>
      )}
    </dialog>
  )
}

function forget(): void {
  keepToken('')
  isOpen.value = false
  toast.value = 'The token is forgotten.'
}

function TokenForm({ onDone }: { onDone?: () => void }) {
  const problem = useSignal('')
  const submit = async (event: SubmitEvent) => {
    event.preventDefault()
    const data = new FormData(event.currentTarget as HTMLFormElement)
    const entered = (data.get('token') as string).trim()
    if (entered === '') return
    const before = token.peek()
    keepToken(entered)
    await readStatus()
    if (canWrite.value && trouble.value === undefined) {
      toast.value = 'You may send dead letters again now.'
      onDone?.()
      return
    }
    keepToken(before)
    problem.value = 'This is not the admin token of the settings.'
  }
  return (
    <form onSubmit={(event) => void submit(event)}>
      <label>
        Admin token
        <input name="token" type="password" autocomplete="off" required />
      </label>
      <p class="hint">It stays in this tab and is forgotten when the tab is closed.</p>
      {problem.value && (
        <p class="error" role="alert">
          {problem.value}
        </p>
      )}
      <div class="actions">
        <button type="submit" class="primary">
          Use it
        </button>
        {onDone && (
          <button type="button" onClick={onDone}>
            Cancel
          </button>
        )}
      </div>
    </form>
  )
}
