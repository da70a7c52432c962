// Who may read and who may change. With an admin token in the settings, both need it. Without one, nobody may change anything,
// and only the machine of the destination may read.
import { signal } from '@preact/signals'
import type { ComponentChildren } from 'preact'
import { useEffect, useRef } from 'preact/hooks'
import { API, keepActor, keepToken, query, readJson, request } from './api.js'
import type { Overview } from '../src/model/answers.js'
import { useClosedWithView } from './dialog.js'
import { leave } from './leaving.js'
import { isPortal } from './portal.js'
import {
  canWrite,
  forgetStatus,
  isRefused,
  isRefusal,
  readStatus,
  status,
  toast,
  toApiError,
  statusError,
} from './state.js'

const isOpen = signal(false)

export function openTokenDialog(): void {
  isOpen.value = true
}

/**
 * Shows its children once the status has been read. Asks for the admin token if the destination refuses. If the token stops
 * being right while somebody works, the view stays as it is behind the question: with what is chosen, typed and about to be
 * done. In the portal, only whoever made the link can go on: a new secret, which is never shown again, stays visible until then.
 */
export function AccessGate({ children }: { children: ComponentChildren }) {
  const code = statusError.value?.code
  if (isRefused.value) {
    return (
      <>
        {isPortal ? <LinkEnded /> : <Closed />}
        {status.value !== undefined && (
          <div class="ended" hidden={!isPortal}>
            {children}
          </div>
        )}
      </>
    )
  }
  if (status.value !== undefined) {
    return (
      <>
        {null}
        <div class="view">{children}</div>
      </>
    )
  }
  if (statusError.value === undefined) return <p aria-busy="true">Reading the status …</p>
  return code === 'unreachable' ? null : <p class="error">{statusError.value.message}</p>
}

/** Only whoever made the link can make another one. */
function LinkEnded() {
  const isExpired = statusError.value?.code === 'portal_link_expired'
  return (
    <section class="card narrow">
      <h1 tabIndex={-1}>{isExpired ? 'This link has expired' : 'This link is not valid'}</h1>
      <p>Go back to where you opened it, and open it again.</p>
    </section>
  )
}

function Closed() {
  const isDisabled = statusError.value?.code === 'admin_disabled'
  return (
    <section class="card narrow">
      <h1 tabIndex={-1}>{isDisabled ? 'No access here' : 'Enter a token'}</h1>
      <p>Calls contain personal data. This page therefore needs a token.</p>
      {isDisabled ? (
        <>
          <p>
            The settings have no <code>adminToken</code>. Set one, and reload the settings. Or set{' '}
            <code>adminListen</code> to <code>127.0.0.1:3301</code>, restart the destination, and
            open <code>http://127.0.0.1:3301/</code> on its machine or through this tunnel:
          </p>
          <pre>ssh -L 3301:127.0.0.1:3301 {location.hostname}</pre>
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
  useClosedWithView(close)
  return (
    <dialog ref={dialog} onClose={close} aria-labelledby="token-title">
      {isOpen.value && (
        <>
          <h2 id="token-title">{canWrite.value ? 'Replay is allowed' : 'Read-only access'}</h2>
          {canWrite.value ? (
            <>
              <p>This tab keeps the token until you close the tab.</p>
              <div class="actions">
                <button type="button" onClick={forget}>
                  Forget the token
                </button>
                <button type="button" onClick={close}>
                  Close
                </button>
              </div>
            </>
          ) : (
            <>
              <p>
                Replays and tests need the admin token, and the settings have none. Set{' '}
                <code>adminToken</code> and reload the settings.
              </p>
              <div class="actions">
                <button type="button" onClick={close}>
                  Close
                </button>
              </div>
            </>
          )}
        </>
      )}
    </dialog>
  )
}

function forget(): void {
  isOpen.value = false
  leave(() => {
    forgetStatus()
    keepToken('')
    // What the next person changes is not logged with this name.
    keepActor('')
    toast.value = 'This tab no longer has the token.'
  })
}

/** The token that is being entered, and what is wrong with it. Both stay when the destination is away for a moment. */
const entered = signal('')
const problem = signal('')

const NOT_ASCII =
  'A token has only ASCII characters without spaces. Copy it again from the settings.'
const NEITHER = 'This is neither the admin token nor the operator token from the settings.'

/** @returns why a token is not used; `undefined` if it is the right one. */
async function refusalOf(token: string): Promise<string | undefined> {
  // Nothing else can be sent in a header, and the settings take no other token.
  if (!/^[\x21-\x7e]+$/.test(token)) return NOT_ASCII
  const headers = { Authorization: `Bearer ${token}` }
  try {
    const response = await request(`${API}/overview${query({ limit: 0 })}`, { headers })
    const { access } = await readJson<Overview>(response)
    return access === 'reader' ? NEITHER : undefined
  } catch (error) {
    const failed = toApiError(error)
    return isRefusal(failed)
      ? NEITHER
      : `${failed.message} The token is not checked yet: try it again.`
  }
}

function TokenForm() {
  const field = useRef<HTMLInputElement>(null)
  useEffect(() => {
    field.current?.focus()
  }, [])
  const submit = async (event: SubmitEvent) => {
    event.preventDefault()
    const token = entered.peek().trim()
    if (token === '') return
    problem.value = ''
    const refusal = await refusalOf(token)
    if (refusal !== undefined) {
      problem.value = refusal
      return
    }
    entered.value = ''
    keepToken(token)
    await readStatus()
  }
  return (
    <form onSubmit={(event) => void submit(event)}>
      <label>
        Admin token or operator token
        <input
          ref={field}
          name="token"
          type="password"
          autocomplete="off"
          required
          value={entered.value}
          onInput={(event) => {
            entered.value = event.currentTarget.value
          }}
        />
      </label>
      <p class="hint">This tab keeps the token until you close the tab.</p>
      {problem.value && (
        <p class="error" role="alert">
          {problem.value}
        </p>
      )}
      <div class="actions">
        <button type="submit" class="primary">
          Use token
        </button>
      </div>
    </form>
  )
}
