// Verdicts: a target is met only by a figure that was measured, in a run without a fault.
import { LIMIT, NOOP, OURS } from './subjects/index.js'

/** A target is a ceiling or a floor. */
const isWithin = (figure, { atMost = Infinity, atLeast = -Infinity }) =>
  figure <= atMost && figure >= atLeast

const figureOf = (row, { ratio, value }) => (ratio ? row.ratios[ratio] : row[value])

/** The faults of a row. A row with faults does not meet a target. */
export const faultsOfRow = (row) => [
  ...row.faults,
  ...(row.isCapped ? ['took longer than the cap'] : []),
]

/**
 * @returns {{ what: string, variant: string, figure: number | undefined, atMost?: number,
 *   atLeast?: number, unit: string, isMet: boolean, faults: string[] }[]} one for each target that the scenario sets hookline
 */
export function judge(scenario, rows) {
  return scenario.targets.map((target) => {
    const { what, variant = '', atMost, atLeast, ratio } = target
    const row = rows.find((row) => row.subject === OURS && row.variant === variant)
    const figure = row && figureOf(row, target)
    const yardsticks = rows.filter(({ subject }) => subject === LIMIT || subject === NOOP)
    const faults = [
      ...(row ? faultsOfRow(row) : ['not measured']),
      // A minimum that lost events can't be compared with.
      ...(ratio
        ? yardsticks
            .filter((yardstick) => yardstick.variant === variant)
            .flatMap((yardstick) => faultsOfRow(yardstick))
            .map((fault) => `the minimum: ${fault}`)
        : []),
      ...(row && !Number.isFinite(figure) ? ['no figure'] : []),
    ]
    return {
      what,
      variant,
      figure,
      atMost,
      atLeast,
      unit: ratio ? 'x' : '',
      isMet: faults.length === 0 && isWithin(figure, target),
      faults,
    }
  })
}
