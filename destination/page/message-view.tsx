import { useSignal } from '@preact/signals'
import { get, query } from './api.js'
import { TraceView } from './delivery-view.js'
import type { ShownMessage, ShownDelivery } from '../src/model/answers.js'
import { usePoll } from './poll.js'
import { toApiError } from './state.js'

/** All deliveries of one message. */
export function MessageView({ id }: { id: string }) {
  const traces = useSignal<ShownDelivery[] | undefined>(undefined)
  const problem = useSignal('')
  const read = async (abort?: AbortSignal) => {
    try {
      const found = await get<ShownMessage>(`/messages${query({ messageId: id })}`, abort)
      traces.value = found.deliveries
    } catch (error) {
      if (!abort?.aborted) problem.value = toApiError(error).message
    }
  }
  usePoll(read, 5_000, [])
  if (problem.value !== '' && traces.value === undefined) {
    return (
      <p class="error" role="alert">
        {problem.value}
      </p>
    )
  }
  return (
    <>
      {traces.value?.map((trace) => (
        <TraceView trace={trace} onReplayed={() => void read()} key={trace.id} />
      ))}
    </>
  )
}
