import { useEffect } from 'preact/hooks'

/**
 * Runs a function at once and then repeatedly. It does not run while the tab is hidden.
 *
 * @param everyMs - The pause between the end of one run and the start of the next.
 * @returns a function that stops the polling and aborts the current run.
 */
export function poll(run: (abort: AbortSignal) => Promise<void>, everyMs: number): () => void {
  const controller = new AbortController()
  const { signal } = controller
  let timer: ReturnType<typeof setTimeout> | undefined
  let isRunning = false
  const turn = async () => {
    clearTimeout(timer)
    if (document.hidden || isRunning) return
    isRunning = true
    await run(signal)
    isRunning = false
    if (!signal.aborted) timer = setTimeout(() => void turn(), everyMs)
  }
  document.addEventListener('visibilitychange', () => void turn(), { signal })
  void turn()
  return () => {
    controller.abort()
    clearTimeout(timer)
  }
}

/** Polls with {@link poll} while the component is shown. Polling restarts when one of `inputs` changes. */
export function usePoll(
  run: (abort: AbortSignal) => Promise<void>,
  everyMs: number,
  inputs: readonly unknown[],
): void {
  useEffect(() => poll(run, everyMs), inputs)
}
