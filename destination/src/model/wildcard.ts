/** The only special character of a pattern: it stands for any text, also for none. */
const ANY = '*'

/**
 * Makes a test for texts by a pattern. Upper and lower case differ.
 *
 * It compares piece by piece and never goes back, so no pattern and no text can make it slow, as a regular expression could.
 */
export function matcher(pattern: string): (text: string) => boolean {
  const [start = '', ...middle] = pattern.split(ANY)
  const end = middle.pop()
  if (end === undefined) return (text) => text === pattern
  return (text) => {
    const endsAt = text.length - end.length
    if (endsAt < start.length || !text.startsWith(start) || !text.endsWith(end)) return false
    let at = start.length
    for (const piece of middle) {
      const found = text.indexOf(piece, at)
      if (found === -1) return false
      at = found + piece.length
    }
    return at <= endsAt
  }
}

/**
 * Finds the first of some patterns that matches a text. Patterns without a wildcard are looked up all at once, so thousands
 * of them cost as much as one.
 */
export function finder(patterns: readonly string[]): (text: string) => string | undefined {
  const exact = new Set(patterns.filter((pattern) => !pattern.includes(ANY)))
  const wild = patterns.filter((pattern) => pattern.includes(ANY))
  const tests = wild.map((pattern) => ({ pattern, matches: matcher(pattern) }))
  return (text) =>
    exact.size > 0 && exact.has(text) ? text : tests.find(({ matches }) => matches(text))?.pattern
}

/**
 * Whether one pattern matches every text that the other one matches.
 *
 * In the text of the other pattern, each wildcard stands for a character that no text contains. Only a wildcard matches it.
 */
export function covers(pattern: string, other: string): boolean {
  return matcher(pattern)(other)
}
