/** One event of a stream. */
export interface StreamEvent {
  event: string
  data: string
}

/**
 * Parses Server-Sent Events (HTML, 9.2.6) from text that arrives in pieces. It supports what the destination sends:
 * `event`, `data` and comments.
 *
 * @param take - Called with each event.
 * @returns a function that takes the next piece of text.
 */
export function readEvents(take: (event: StreamEvent) => void): (piece: string) => void {
  let rest = ''
  let event = 'message'
  let data: string[] = []
  const line = (text: string) => {
    if (text === '') {
      if (data.length > 0) take({ event, data: data.join('\n') })
      event = 'message'
      data = []
    } else if (text.startsWith('event:')) event = text.slice(6).trim()
    else if (text.startsWith('data:')) data.push(text.slice(5).replace(/^ /, ''))
  }
  return (piece) => {
    const lines = (rest + piece).split('\n')
    rest = lines.pop() ?? ''
    for (const one of lines) line(one.replace(/\r$/, ''))
  }
}
