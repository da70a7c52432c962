/** For how long one slice may hold the thread, in ms. A request takes several turns of the event loop, and waits for each. */
const SLICE_MS = 0.1

/** A sort begins with lists of this many elements. Each takes a fraction of a slice. */
const SORTED_AT_ONCE = 256

/**
 * Does something with each element of a long list. Between its slices, other work of the process goes on.
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
  return mapInSlices(elements, (element) => element)
}

/** What a function gives for each element of a long list, in slices as {@link eachInSlices} does. */
export async function mapInSlices<T, U>(
  elements: Iterable<T>,
  convert: (element: T) => U,
): Promise<U[]> {
  const all: U[] = []
  await eachInSlices(elements, (element) => all.push(convert(element)))
  return all
}

/** Makes a map of a long list, in slices as {@link eachInSlices} does. Of elements with the same key it has the last. */
export async function indexInSlices<K, T>(
  elements: Iterable<T>,
  keyOf: (element: T) => K,
): Promise<Map<K, T>> {
  const index = new Map<K, T>()
  await eachInSlices(elements, (element) => index.set(keyOf(element), element))
  return index
}

/** Sorts a long list, in slices as {@link eachInSlices} does. Elements that are equal keep their order. */
export async function sortInSlices<T>(
  elements: readonly T[],
  compare: (a: T, b: T) => number,
): Promise<T[]> {
  const starts = Array.from(
    { length: Math.ceil(elements.length / SORTED_AT_ONCE) },
    (_, i) => i * SORTED_AT_ONCE,
  )
  let parts: T[][] = []
  await eachInSlices(starts, (start) => {
    parts.push(elements.slice(start, start + SORTED_AT_ONCE).sort(compare))
  })
  while (parts.length > 1) {
    const longer: T[][] = []
    for (let i = 0; i < parts.length; i += 2) {
      longer.push(await inSlices(merged(parts[i] ?? [], parts[i + 1] ?? [], compare)))
    }
    parts = longer
  }
  return parts[0] ?? []
}

function* merged<T>(
  first: readonly T[],
  second: readonly T[],
  compare: (a: T, b: T) => number,
): Generator<T> {
  let i = 0
  for (const b of second) {
    for (; i < first.length && compare(first[i] as T, b) <= 0; i++) yield first[i] as T
    yield b
  }
  for (; i < first.length; i++) yield first[i] as T
}

/** Waits until other work that is ready has run. */
export function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve))
}
