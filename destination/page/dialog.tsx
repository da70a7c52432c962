import type { ComponentChildren } from 'preact'
import { useEffect, useId, useLayoutEffect, useRef } from 'preact/hooks'
import { LateAnswer, single } from './form.js'
import { route } from './route.js'
import { isRefused } from './state.js'

interface DialogProps {
  title: string
  onClose: () => void
  children: ComponentChildren
}

/** Closes a dialog when another view is shown, as by the browser's way back. Its buttons would still act on the view before. */
export function useClosedWithView(close: () => void): void {
  const { hash } = route.value
  const shown = useRef(hash)
  useLayoutEffect(() => {
    if (hash === shown.current) return
    shown.current = hash
    close()
  }, [hash])
}

/** A dialog that is open while it is rendered. Esc closes it. It makes room for the question for the token, and then opens again. */
export function Dialog(props: DialogProps) {
  useClosedWithView(props.onClose)
  return isRefused.value ? null : <OpenDialog {...props} />
}

function OpenDialog(props: DialogProps) {
  const dialog = useRef<HTMLDialogElement>(null)
  const id = useId()
  useEffect(() => {
    dialog.current?.showModal()
    // The attribute autofocus does nothing in a frame of another site.
    dialog.current?.querySelector<HTMLElement>('[data-focus]')?.focus()
  }, [])
  return (
    <dialog
      ref={dialog}
      onClose={() => {
        if (!isRefused.peek()) props.onClose()
      }}
      aria-labelledby={id}
    >
      <h2 id={id}>{props.title}</h2>
      <LateAnswer />
      {props.children}
    </dialog>
  )
}

interface ConfirmProps {
  title: string
  yes: string
  no?: string
  onYes: () => void
  onNo: () => void
  children: ComponentChildren
}

/** Asks before something that can't be undone. Who presses Enter or clicks twice does not answer yes by that. */
export function Confirm({ title, yes, no = 'Cancel', onYes, onNo, children }: ConfirmProps) {
  return (
    <Dialog title={title} onClose={onNo}>
      {children}
      <div class="actions">
        <button type="button" class="danger" onClick={single(onYes)}>
          {yes}
        </button>
        <button type="button" data-focus onClick={single(onNo)}>
          {no}
        </button>
      </div>
    </Dialog>
  )
}
