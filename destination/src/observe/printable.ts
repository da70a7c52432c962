/** Escapes the control characters of an untrusted text, because they could control the terminal that shows it. */
export function printable(text: string): string {
  return text.replace(/\p{Cc}/gu, (character) => {
    const code = character.charCodeAt(0).toString(16).padStart(4, '0')
    return SHORT[character] ?? `\\u${code}`
  })
}

const SHORT: Readonly<Record<string, string>> = { '\n': '\\n', '\r': '\\r', '\t': '\\t' }
