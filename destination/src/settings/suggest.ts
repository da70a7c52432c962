/** The known word that is most similar to a misspelled one; `undefined` if none is similar. */
export function suggest(word: string, known: readonly string[]): string | undefined {
  const given = word.toLowerCase()
  const near = known
    .map((each) => ({ each, distance: distance(given, each.toLowerCase()) }))
    .filter(({ each, distance }) => distance <= Math.min(2, Math.floor(each.length / 3)))
  return near.sort((a, b) => a.distance - b.distance)[0]?.each
}

/** The Levenshtein distance: how many letters must be added, removed or changed to turn one word into the other. */
function distance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, index) => index)
  for (const [i, letter] of Array.from(a).entries()) {
    const next = [i + 1]
    for (const [j, other] of Array.from(b).entries()) {
      const change = (row[j] ?? 0) + (letter === other ? 0 : 1)
      next.push(Math.min(change, (row[j + 1] ?? 0) + 1, (next[j] ?? 0) + 1))
    }
    row = next
  }
  return row[b.length] ?? 0
}
