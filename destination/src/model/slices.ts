/** For how long one slice may hold the thread, in ms. */
const SLICE_MS = 2

/**
 * Does something with each element of a long list. Between slices of a few ms, other work of the process goes on.
 *
 * @param elements - It may compute each element when it is asked for it, as a generator does.
 */
export async function eachInSlices<T>(
  elements: Iterable<T>,
  act: (element: T) => void,
): Promise<void> {
  let since = performance.now()
  for (const element of elements) {
    act(element)
    if (performance.now() - since < SLICE_MS) continue
    await turn()
    since = performance.now()
  }
}

/** Collects the elements of a long computation, in slices as {@link eachInSlices} does. */
export async function inSlices<T>(elements: Iterable<T>): Promise<T[]> {
  const all: T[] = []
  await eachInSlices(elements, (element) => all.push(element))
  return all
}

/** Waits until other work that is ready has run. */
export function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve))
}
