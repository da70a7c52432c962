import { performance } from 'node:perf_hooks'

/** The progress of a long task. */
export interface Progress {
  /** The part of the total that is done, from 0 to 1; `undefined` if the total is not known. */
  share: number | undefined
  /** The number of things that are done. */
  done: number
  /** A note that is shown after the numbers. */
  note?: string
}

/** How often the progress is drawn on a terminal, or printed as a line, in ms. */
const DRAW_MS = 100
const TELL_MS = 10_000
const BAR_WIDTH = 24

/**
 * Shows the progress of a task on the standard error: on a terminal as a bar with the rate and the remaining time, else
 * as a line every 10 s.
 *
 * @param doing - The name of the task, such as `importing`.
 * @param look - Gives the current progress.
 * @returns a function that ends the display. On a terminal it draws the progress a last time.
 */
export function showProgress(doing: string, look: () => Progress): () => void {
  const { stderr } = process
  const startedAt = performance.now()
  const first = look()
  const describe = () => {
    const { share, done, note } = look()
    const seconds = Math.max(0.001, (performance.now() - startedAt) / 1_000)
    const rate = (done - first.done) / seconds
    const gone = share === undefined ? 0 : share - (first.share ?? 0)
    const left = share === undefined || gone <= 0 ? undefined : (seconds * (1 - share)) / gone
    const parts = [
      share === undefined ? undefined : `${Math.floor(share * 100)} %`,
      done.toLocaleString('en-US'),
      `${Math.round(rate).toLocaleString('en-US')}/s`,
      left === undefined || left < 0.5 ? undefined : `${formatSeconds(left)} left`,
      note,
    ]
    return { share, text: parts.filter(Boolean).join('  ') }
  }
  const draw = () => {
    const { share, text } = describe()
    const shown = share === undefined ? '' : `${bar(share, BAR_WIDTH)}  `
    stderr.write(`\r\u001B[K${`${doing}  ${shown}${text}`.slice(0, stderr.columns || 80)}`)
  }
  const tell = () => {
    console.error(`${doing}: ${describe().text}`) // unlike a write, it does not end the process on a full disk
  }
  const timer = setInterval(stderr.isTTY ? draw : tell, stderr.isTTY ? DRAW_MS : TELL_MS)
  return () => {
    clearInterval(timer)
    if (!stderr.isTTY) return
    draw()
    stderr.write('\n')
  }
}

/** @param share - From 0 to 1. */
export function bar(share: number, width: number): string {
  return '█'.repeat(Math.round(share * width)).padEnd(width, '░')
}

/** Formats a duration: `1 h 5 min`, `12 min 30 s`, `8 s`. */
export function formatSeconds(seconds: number): string {
  const whole = Math.round(seconds)
  const [hours, minutes] = [Math.floor(whole / 3_600), Math.floor(whole / 60) % 60]
  if (hours > 0) return `${hours} h ${minutes} min`
  return minutes > 0 ? `${minutes} min ${whole % 60} s` : `${whole} s`
}
