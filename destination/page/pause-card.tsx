import { useSignal } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'
import { openTokenDialog } from './access.js'
import { post } from './api.js'
import { useAsking } from './asking.js'
import { Failure } from './form.js'
import { clock } from './format.js'
import { useKept } from './leaving.js'
import type { DestinationDetails, PauseChanged } from '../src/model/answers.js'
import { canWrite, now, toast } from './state.js'

interface PauseProps {
  found: DestinationDetails
  /** Reads the destination again. */
  onChanged: () => Promise<void>
}

/** Pauses a destination with a reason, or says why it is paused and resumes it. */
export function PauseCard({ found: { name, paused }, onChanged }: PauseProps) {
  const { failure, isAsking, ask } = useAsking()
  const reason = useSignal('')
  useKept(reason.value.trim() === '' ? '' : 'the reason that you typed')
  /** What was asked for last. */
  const wanted = useRef<'pause' | 'resume' | undefined>(undefined)
  const done = (action: 'pause' | 'resume') => {
    wanted.current = undefined
    reason.value = ''
    toast.value = action === 'pause' ? `${name} is paused.` : `${name} gets its messages again.`
  }
  // If the answer was lost, the view reads the state again, and it may be what was wanted.
  useEffect(() => {
    const action = paused ? 'pause' : 'resume'
    if (failure.value === '' || wanted.current !== action) return
    failure.value = ''
    done(action)
  }, [paused === null, failure.value])
  const change = async (action: 'pause' | 'resume', body: object) => {
    if (!canWrite.value) {
      openTokenDialog()
      return
    }
    wanted.current = action
    await ask(async () => {
      await post<PauseChanged>(`/destinations/${encodeURIComponent(name)}/${action}`, body)
      await onChanged()
      done(action)
    })
  }
  const pause = (event: SubmitEvent) => {
    event.preventDefault()
    void change('pause', { reason: reason.value })
  }
  return (
    <section class="card" aria-labelledby="pause">
      <h2 id="pause">{paused ? 'Paused' : 'Pause'}</h2>
      {paused ? (
        <>
          <p class="break">
            Since {clock(paused.at, now.value)}: {paused.reason}
          </p>
          <p class="hint">Nothing is sent. New and waiting messages wait until you resume it.</p>
          <div class="actions">
            <button
              type="button"
              class="primary"
              disabled={isAsking.value}
              onClick={() => void change('resume', {})}
            >
              Resume
            </button>
          </div>
        </>
      ) : (
        <form onSubmit={pause}>
          <p class="hint">Nothing is sent while it is paused. Its messages wait.</p>
          <label>
            Reason{' '}
            <input
              name="reason"
              required
              maxLength={500}
              autocomplete="off"
              pattern=".*\S.*"
              value={reason.value}
              onInput={({ currentTarget }) => {
                reason.value = currentTarget.value
              }}
            />
          </label>
          <div class="actions">
            <button type="submit" disabled={isAsking.value}>
              Pause
            </button>
          </div>
        </form>
      )}
      <Failure text={failure.value} />
    </section>
  )
}
