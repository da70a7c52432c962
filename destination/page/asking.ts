import { useSignal } from '@preact/signals'
import { readStatus, toApiError } from './state.js'

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
