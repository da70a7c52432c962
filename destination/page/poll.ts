import { useEffect } from 'preact/hooks'

/**
 * Runs at once and then again and again, each time so long after the last one has ended; not while the tab is hidden.
 *
 * @returns what ends it.
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

/** {@link poll} while the component is shown; anew when one of `inputs` changes. */
export function usePoll(
  run: (abort: AbortSignal) => Promise<void>,
  everyMs: number,
  inputs: readonly unknown[],
): void {
  useEffect(() => poll(run, everyMs), inputs)
}
