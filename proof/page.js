// docs/proofs.md, made from a run.
import { cpus } from 'node:os'

const row = (cells) => `| ${cells.map((cell) => String(cell).replaceAll('|', '\\|')).join(' | ')} |`
const table = (head, rows) =>
  [row(head), row(head.map(() => '---')), ...rows.map((cells) => row(cells))].join('\n')

const sectionOf = ({ proof, result }) => {
  const outcome = result.skipped ? `Left out: ${result.skipped}.` : `**Green.** ${result.summary}.`
  const figures = result.skipped ? [] : [table(result.head, result.rows)]
  return [`## ${proof.number}. ${proof.title}`, proof.what, outcome, ...figures].join('\n\n')
}

export function toPage({ results, mutants, seconds }) {
  const date = new Date().toISOString().slice(0, 10)
  const overview = results.map(({ proof, result }) => [
    proof.number,
    proof.title,
    result.skipped ? 'left out' : 'green',
    result.skipped ?? result.summary,
  ])
  return `${[
    '<!-- Made by `npm run proof -- --write`: change proof/page.js, not this page. -->',
    '# Proofs',
    'What hookline promises about loss is shown here, not claimed: processes are killed, connections are cut, disks are filled, and what was accepted is compared with what one scripted sink stored.',
    `Run on ${date} with Node ${process.version} on ${process.platform}, ${cpus().length} cores, in ${seconds} s.`,
    table(['', 'proof', 'result', 'counts'], overview),
    '## Run them',
    [
      '```sh',
      'npm run proof                      # all of it, about 12 minutes',
      'npm run proof -- --only 1,3        # some',
      'npm run proof -- --quick           # smaller, hookline without its peers, about 5 minutes: a part of .ci/run',
      'npm run proof -- --self-test       # and the mutants of the last section',
      'npm run proof -- --write           # all, the mutants, and this page',
      'npm run proof -- --only 5 --minutes 120   # proof 5 for as long as you like, with new seeds',
      'npm run proof -- --only 5 --seed 1234     # one of its rounds again, with its story',
      'npm run proof -- --only 5 --seed 1000 --rounds 200',
      'npm run proof -- --only 6 --minutes 60    # proof 6 takes the same flags',
      'SLOW=1 npm run proof -- --only 7          # proof 7 for an hour, or for --minutes, with rounds of a minute or two',
      'SLOW=1 npm run proof -- --only 7 --seed 1234   # the plan of one of these rounds again',
      '```',
    ].join('\n'),
    'The exit code is 1 if a proof is red. Proof 4 and the slow disk of proof 7 need `strace`, the full disk of proof 3 the right to mount one, and proof 8 Patroni, etcd and a PostgreSQL server of the system; what can’t be run says so in one line.',
    ...results.map(sectionOf),
    '## That they can fail',
    'Each mutant is a copy of the built packages with one property broken. The proof of that property, run on it, is red:',
    table(
      ['mutant', 'proof', 'what the proof said'],
      mutants.map(({ name, proof, fault }) => [name, proof, fault]),
    ),
  ].join('\n\n')}\n`
}
