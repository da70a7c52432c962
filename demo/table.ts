import { styleText } from 'node:util'
import Table from 'cli-table3'
import type { EndpointState } from './collector.js'
import { percentile, type Line } from './compare.js'
import type { LoadBooks } from './load.js'

/** What both ends say of messages, requests and batches, side by side. */
export function comparisonTable(lines: readonly Line[]): string {
  const rows = (['messages', 'requests', 'batches'] as const).flatMap((about) => [
    [styleText('bold', about), '', '', ''],
    ...lines
      .filter((line) => line.about === about)
      .map(({ what, app, collector, isRight }) => [
        `  ${what}`,
        formatCount(app),
        formatCount(collector),
        formatVerdict(isRight),
      ]),
  ])
  return drawTable(['what both ends say', 'the app', 'the collector', ''], [40, 15, 15, 4], rows)
}

/** The application's own latency, which an outage of the endpoint must not change. */
export function latencyTable({ stretches }: LoadBooks): string {
  const rows = stretches.map(({ state, latenciesMs }, index) => [
    formatState(state) + (state === 'up' && index > 0 ? ' again' : ''),
    formatCount(latenciesMs.length),
    formatMs(percentile(latenciesMs, 0.5)),
    formatMs(percentile(latenciesMs, 0.99)),
  ])
  const head = ["the app, by its endpoint's state", 'answered', 'p50', 'p99']
  return drawTable(head, [40, 12, 11, 11], rows)
}

function drawTable(head: string[], colWidths: number[], rows: string[][]): string {
  const table = new Table({
    head: head.map((title) => styleText('bold', title)),
    colWidths,
    colAligns: ['left', 'right', 'right', 'right'],
    style: { head: [], border: [], compact: true },
  })
  table.push(...rows)
  return table.toString()
}

export function formatState(state: EndpointState): string {
  const colour = { up: 'green', 'answers 500': 'yellow', 'port closed': 'red' } as const
  return styleText(colour[state], state)
}

function formatVerdict(isRight: boolean | undefined): string {
  if (isRight === undefined) return ''
  return isRight ? styleText('green', '✓') : styleText('red', '✗')
}

export function formatCount(count: number | undefined): string {
  return count === undefined ? '' : count.toLocaleString('en')
}

function formatMs(ms: number): string {
  return `${ms.toFixed(1)} ms`
}
