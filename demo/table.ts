import { styleText } from 'node:util'
import Table from 'cli-table3'
import type { Line } from './compare.js'
import { percentile, type Stretch } from './stretches.js'

/** The counts of all parts, side by side. */
export function comparisonTable(lines: readonly Line[]): string {
  const topics = new Set(lines.map(({ about }) => about))
  const rows = [...topics].flatMap((topic) => [
    [styleText('bold', topic), '', '', '', '', ''],
    ...lines
      .filter(({ about }) => about === topic)
      .map(({ what, app, sdk, destination, receiver, isRight }) => [
        `  ${what}`,
        ...[app, sdk, destination, receiver].map(formatCount),
        formatVerdict(isRight),
      ]),
  ])
  const head = ['counted by', 'app', 'SDK', 'store', 'receiver', '']
  return drawTable(head, [35, 8, 8, 8, 10, 4], rows)
}

/** The durations by the stretch in which they started. They show that an outage does not affect the other parts. */
export function latencyTable(
  stretches: readonly Stretch[],
  columns: readonly { title: string; part: number; split: readonly number[][] }[],
): string {
  const isAgain = (index: number) =>
    stretches.findIndex(({ name }) => name === stretches[index]?.name) < index
  const rows = stretches.map(({ name }, index) => [
    formatStretch(name, isAgain(index) ? `${name} again` : name),
    ...columns.map(({ part, split }) => formatMs(percentile(split[index] ?? [], part))),
  ])
  const head = ['while …', ...columns.map(({ title }) => title)]
  return drawTable(head, [23, ...columns.map(({ title }) => Math.max(11, title.length + 2))], rows)
}

function drawTable(head: string[], colWidths: number[], rows: string[][]): string {
  const table = new Table({
    head: head.map((title) => styleText('bold', title)),
    colWidths,
    colAligns: ['left', ...head.slice(1).map(() => 'right' as const)],
    style: { head: [], border: [], compact: true },
  })
  table.push(...rows)
  return table.toString()
}

export function formatStretch(name: Stretch['name'], text: string = name): string {
  const colours = {
    'warming up': 'gray',
    'all is up': 'green',
    'crm answers 503': 'yellow',
    "crm's port is closed": 'red',
    'destination is killed': 'red',
  } as const
  return styleText(colours[name], text)
}

function formatVerdict(isRight: boolean | undefined): string {
  if (isRight === undefined) return ''
  return isRight ? styleText('green', '✓') : styleText('red', '✗')
}

export function formatCount(count: number | undefined): string {
  return count === undefined ? '' : count.toLocaleString('en')
}

function formatMs(ms: number): string {
  if (Number.isNaN(ms)) return ''
  return ms < 1_000 ? `${ms.toFixed(1)} ms` : `${(ms / 1_000).toFixed(1)} s`
}
