// What would be lost if this view were left, and the question that comes first.
import { signal } from '@preact/signals'
import { useLayoutEffect } from 'preact/hooks'

/** What would be lost, in words, by who keeps it. */
export const kept = signal<ReadonlyMap<object, string>>(new Map())

/** What the person wants to do, but was not yet allowed to. */
export const leaving = signal<(() => void) | undefined>(undefined)

// Browsers ask in their own words before they close or reload the page.
const warn = (event: Event) => {
  event.preventDefault()
}
kept.subscribe(({ size }) => {
  // A page that always listens is not kept by browsers for the way back.
  if (size > 0) addEventListener('beforeunload', warn)
  else removeEventListener('beforeunload', warn)
})

/** Asks before the view is left while the component is shown. @param what - What would be lost; empty if nothing. */
export function useKept(what: string): void {
  // An effect that waits for a frame comes too late for a key that is pressed at once.
  useLayoutEffect(() => {
    if (what === '') return
    const key = {}
    kept.value = new Map([...kept.peek(), [key, what]])
    return () => {
      kept.value = new Map(Array.from(kept.peek()).filter(([one]) => one !== key))
    }
  }, [what])
}

export function forgetKept(): void {
  kept.value = new Map()
}

/** Does what leaves the view: at once if nothing would be lost, else once the person agrees. */
export function leave(move: () => void): void {
  if (kept.peek().size === 0) move()
  else leaving.value = move
}
