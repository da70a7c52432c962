import { useSignal, type Signal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import { poll } from './poll.js'
import { toApiError } from './state.js'

/** In ms: the pause before something is read again that could not be read. */
const RETRY_MS = 3_000

/** What was read, and why it could not be read the last time. */
interface Read<T> {
  found: Signal<T | undefined>
  failure: Signal<string>
}

/** Reads something, again and again until it succeeds once. It is read anew when one of `inputs` changes. */
export function useRead<T>(
  read: (abort: AbortSignal) => Promise<T>,
  inputs: readonly unknown[],
): Read<T> {
  const found = useSignal<T | undefined>(undefined)
  const failure = useSignal('')
  useEffect(() => {
    const end = poll(async (abort) => {
      try {
        const answer = await read(abort)
        if (abort.aborted) return
        found.value = answer
        failure.value = ''
        end()
      } catch (error) {
        if (!abort.aborted) failure.value = toApiError(error).message
      }
    }, RETRY_MS)
    return end
  }, inputs)
  return { found, failure }
}
