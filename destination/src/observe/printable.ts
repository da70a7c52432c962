/** A text from elsewhere, fit for a terminal: its control characters could do anything to one. */
export function printable(text: string): string {
  return text.replace(/\p{Cc}/gu, (character) => {
    const code = character.charCodeAt(0).toString(16).padStart(4, '0')
    return SHORT[character] ?? `\\u${code}`
  })
}

const SHORT: Readonly<Record<string, string>> = { '\n': '\\n', '\r': '\\r', '\t': '\\t' }
