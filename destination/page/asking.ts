import { useSignal } from '@preact/signals'
import { readStatus, toApiError } from './state.js'

/** The codes that do not say whether a change was made. The second one is that of an answer of a proxy. */
const UNANSWERED = ['unreachable', 'unknown']

/** Whether nobody knows what became of a request. */
export const isUnanswered = (error: unknown): boolean => UNANSWERED.includes(toApiError(error).code)

/** In ms: the pause before the destination is asked again. */
const RETRY_MS = 2_000

/** Asks again and again until there is an answer. @returns `undefined` if the view has ended before. */
export async function untilAnswered<T>(
  ask: () => Promise<T>,
  abort: AbortSignal,
): Promise<T | undefined> {
  while (!abort.aborted) {
    try {
      return await ask()
    } catch {
      await new Promise((resolve) => setTimeout(resolve, RETRY_MS))
    }
  }
  return undefined
}

/** Asks the destination for one thing at a time, and keeps why the last one failed: `failure` is empty if it did not. */
export function useAsking() {
  const failure = useSignal('')
  const isAsking = useSignal(false)
  const tell = async (error: unknown) => {
    failure.value = toApiError(error).message
    // If the token is no longer right, this asks for it.
    await readStatus()
  }
  /** @param failed - What follows an error. By default it is shown. */
  const ask = async (
    make: () => Promise<void>,
    failed: (error: unknown) => Promise<void> = tell,
  ) => {
    isAsking.value = true
    failure.value = ''
    try {
      await make()
    } catch (error) {
      await failed(error)
    }
    isAsking.value = false
  }
  return { failure, isAsking, ask }
}
