import { Confirm } from './dialog.js'
import { forgetKept, kept, leaving } from './leaving.js'

/** Asks before something is lost. A view has it beside what uses `useKept`. */
export function LeaveDialog() {
  const move = leaving.value
  if (move === undefined) return null
  const stay = () => {
    leaving.value = undefined
  }
  return (
    <Confirm
      title="Leave this view?"
      yes="Leave"
      no="Stay"
      onNo={stay}
      onYes={() => {
        stay()
        forgetKept()
        move()
      }}
    >
      <p>You would lose {Array.from(new Set(kept.value.values())).join(', and ')}.</p>
    </Confirm>
  )
}
