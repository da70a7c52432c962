// Measures a scenario of the destination round by round: each of its arms once, then each again, so that
// what disturbs the machine disturbs them alike. An arm is a subject in a variant; it may have another
// arm as its base, and its ratios are to that one, within a round.
import { toRow } from '../rounds.js'
import { makeFolder } from './process.js'

/**
 * @param {object} scenario a module of scenarios/
 * @param {{ variant: string, subject: string, base?: object }[]} arms
 * @param {{ runs: number, progress: (text: string) => void }} options
 * @param {(arm: object, folder: string) => Promise<object>} measure gives a flat record of numbers, with its
 *   `faults`; the folder is the arm's alone and is removed afterwards
 * @returns a row for each arm, with medians over the rounds
 */
export async function runArms(scenario, arms, { runs, progress }, measure) {
  const records = new Map(arms.map((arm) => [arm, []]))
  for (let round = 0; round < runs; round += 1) {
    for (const arm of arms) {
      progress([scenario.name, arm.variant, arm.subject, `${round + 1}/${runs}`].join(' '))
      records.get(arm).push(await measureOnce(arm, measure))
    }
  }
  return arms.map((arm) => {
    const { variant, subject, base } = arm
    const row = toRow(
      scenario,
      { name: variant },
      subject,
      records.get(arm),
      records.get(base) ?? [],
    )
    // A base that lost messages is not a valid base.
    if (base && base.subject === subject)
      row.faults.push(...faultsIn(records.get(base)).map((fault) => `${base.variant}: ${fault}`))
    return row
  })
}

async function measureOnce(arm, measure) {
  const folder = await makeFolder()
  try {
    return await measure(arm, folder.path)
  } catch (error) {
    return { error: error.message }
  } finally {
    await folder.remove()
  }
}

const faultsIn = (records) => [
  ...new Set(records.flatMap(({ error, faults = [] }) => (error ? [error] : faults))),
]
