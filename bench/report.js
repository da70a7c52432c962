// Tables for the terminal and for results.md, from the rows that the scenarios gave.
import Table from 'cli-table3'
import { faultsOfRow } from './targets.js'

const number = (value) => {
  if (!Number.isFinite(value)) return '–'
  const digits = Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 2
  return value.toLocaleString('en-US', { maximumFractionDigits: digits })
}

const cell = (row, { ratio, value }) => number(ratio ? row.ratios[ratio] : row[value])

function toCells(scenario, rows) {
  const hasVariants = rows.some(({ variant }) => variant !== '')
  const head = [
    'subject',
    ...(hasVariants ? ['variant'] : []),
    'runs',
    ...scenario.columns.map((column) => column.head),
    'note',
  ]
  const body = rows.map((row) => [
    row.subject,
    ...(hasVariants ? [row.variant] : []),
    String(row.runs),
    ...scenario.columns.map((column) => cell(row, column)),
    faultsOfRow(row).join('; '),
  ])
  const lefts = new Set(['subject', 'variant', 'note'])
  return { head, body, isLeft: head.map((title) => lefts.has(title)) }
}

function toVerdictCells(verdicts) {
  return {
    head: ['target', 'variant', 'hookline', 'bound', 'verdict', 'note'],
    body: verdicts.map(({ what, variant, figure, atMost, atLeast, unit, isMet, faults }) => [
      what,
      variant,
      number(figure) + unit,
      atMost === undefined ? `≥ ${number(atLeast)}${unit}` : `≤ ${number(atMost)}${unit}`,
      isMet ? 'met' : 'MISSED',
      faults.join('; '),
    ]),
    isLeft: [true, true, false, false, true, true],
  }
}

function toTerminal({ head, body, isLeft }) {
  const table = new Table({
    head,
    colAligns: isLeft.map((left) => (left ? 'left' : 'right')),
    style: { head: [], border: [], compact: true },
  })
  table.push(...body)
  return table.toString()
}

function toMarkdown({ head, body, isLeft }) {
  const lines = [head, ...body]
  const widths = head.map((_, index) => Math.max(3, ...lines.map((line) => line[index].length)))
  const pad = (text, index) =>
    isLeft[index] ? text.padEnd(widths[index]) : text.padStart(widths[index])
  const toLine = (line) => `| ${line.map(pad).join(' | ')} |`
  const rule = widths.map((width, index) =>
    isLeft[index] ? '-'.repeat(width) : `${'-'.repeat(width - 1)}:`,
  )
  return [toLine(head), `| ${rule.join(' | ')} |`, ...body.map(toLine)].join('\n')
}

/** @param {{ scenario: object, rows: object[], verdicts: object[] }} result */
export const printResult = ({ scenario, rows, verdicts }) =>
  [
    `\n${scenario.title}`,
    toTerminal(toCells(scenario, rows)),
    ...(verdicts.length > 0 ? [toTerminal(toVerdictCells(verdicts))] : []),
  ].join('\n')

/** The whole of results.md. */
export function toResultsPage(results, { machine, date }) {
  const verdicts = results.flatMap((result) => result.verdicts)
  const sections = results.map(
    ({ scenario, rows }) => `## ${scenario.title}\n\n${toMarkdown(toCells(scenario, rows))}\n`,
  )
  return [
    '# Benchmark results\n',
    `${date}, ${machine}. Medians; "x" is the ratio to the hand-written minimum (\`limit\`) of the same`,
    'round. What each figure is: [README.md](README.md).\n',
    '## Targets\n',
    `${toMarkdown(toVerdictCells(verdicts))}\n`,
    ...sections,
  ].join('\n')
}
