import type {
  AppliedChange,
  SettingChange,
  SettingsApplied,
  SettingsExport,
} from '../model/answers.js'
import type { WaitingChoice } from '../model/setting.js'
import { printable } from '../observe/printable.js'
import {
  actorHeader,
  addActor,
  addAdminOptions,
  findAdmin,
  type AdminOptions,
} from './admin-client.js'
import { CommandError, EXIT, isColoured, paint, type AddCommand } from './command.js'
import { CHOOSE_WAITING, confirm, UNCHANGED, waitingOption } from './question.js'
import { readObject, SHOWN_ONCE, textOf } from './settings-text.js'

interface ExportOptions extends AdminOptions {
  json?: true
}

interface ApplyOptions extends ExportOptions {
  dryRun?: true
  prune?: true
  waiting?: WaitingChoice
  yes?: true
  actor?: string
}

const EXAMPLES = `
Examples:
  $ hookline-destination settings export > settings.yaml
  $ hookline-destination settings apply settings.yaml --dry-run
  $ hookline-destination settings apply settings.yaml --prune
  $ hookline-destination settings apply settings.yaml --yes --actor "$CI_COMMIT_AUTHOR"     # in a script`

const OF_EXPORT = `
Secrets, values of headers and queries of URLs are printed as •••. The command "settings apply" keeps what is •••. What is in the
settings file of the destination is not printed.`

const OF_APPLY = `
FILE is YAML or JSON with the lists "tenants", "sources" and "destinations" of the settings file; - reads the standard input. It
may name environment variables, such as \${SECRET}. The command shows what will change, asks, and changes all of it or, if anything in the
store has changed meanwhile, nothing. A secret that FILE lacks, or has as •••, stays as it is; a new one is generated and printed
once. A list that FILE lacks changes nothing. Without a terminal the command needs --yes.`

export const addSettings: AddCommand = (program) => {
  const group = program
    .command('settings')
    .description(
      'export all sources, destinations and tenants of the store, or change them together',
    )
    .addHelpText('after', EXAMPLES)

  addAdminOptions(group.command('export').description('print everything in the store as YAML'))
    .option('--json', 'print JSON')
    .addHelpText('after', OF_EXPORT)
    .action(exportAll)

  const apply = group
    .command('apply')
    .description('make the store have what a file has')
    .argument('<file>', 'what the store is to have')
    .option('--dry-run', 'only show what would change')
    .option('--prune', 'delete what the lists of the file lack')
    .addOption(waitingOption('that wait for destinations that are deleted'))
    .option('-y, --yes', 'do not ask')
  addAdminOptions(addActor(apply))
    .option('--json', 'print JSON')
    .addHelpText('after', OF_APPLY)
    .action(applyFile)
}

async function exportAll(options: ExportOptions): Promise<void> {
  const { ask } = await findAdmin(options)
  const { settings } = (await ask('/settings')) as SettingsExport
  if (!options.json) console.log('# "settings apply" keeps what is •••.')
  console.log(await textOf(settings, options.json))
}

async function applyFile(file: string, options: ApplyOptions): Promise<void> {
  const { dryRun = false, prune = false, waiting, json } = options
  const settings = await readObject(file)
  const { ask } = await findAdmin(options)
  const order = { settings, prune, waiting }
  const planned = (await ask('/settings', { ...order, dryRun: true })) as SettingsApplied
  if (!json) console.log(linesOf(planned, isColoured(process.stdout)).join('\n'))
  if (dryRun || planned.changes.length === 0) {
    if (json) console.log(JSON.stringify(planned, null, 2))
    return
  }
  requireChoice(planned, options)
  await confirm(`Changes to make: ${planned.changes.length}.`, 'make them', 'yes', options)
  // Exactly what was shown is done, or nothing.
  const headers = { 'If-Match': `"${planned.revision}"`, ...actorHeader(options) }
  const fixes = { version_mismatch: 'Run the command again: it shows first what will change.' }
  const applied = (await ask('/settings', order, { headers, fixes })) as SettingsApplied
  if (json) {
    console.log(JSON.stringify(applied, null, 2))
    return
  }
  console.log(`Changes made: ${applied.changes.length}.`)
  if (applied.discarded > 0) console.log(`Messages deleted with them: ${applied.discarded}.`)
  const generated = applied.changes.flatMap(({ kind, name, generated }) =>
    Object.entries(generated).map(([field, value]) => `${kind} ${name}  ${field}: ${value}`),
  )
  for (const line of generated) console.log(line)
  if (generated.length > 0) console.log(SHOWN_ONCE)
}

/** @throws CommandError if messages wait for what would be deleted, and nothing says what becomes of them. */
function requireChoice({ changes }: SettingsApplied, { waiting }: ApplyOptions): void {
  const count = changes.reduce((sum, one) => sum + one.waiting, 0)
  if (count === 0 || waiting !== undefined) return
  const message = `Messages that wait for destinations that would be deleted: ${count}. ${UNCHANGED} ${CHOOSE_WAITING}.`
  throw new CommandError(EXIT.usage, message, 'messages_waiting')
}

const SIGNS = { create: ['+', 'green'], update: ['~', 'yellow'], delete: ['-', 'red'] } as const

/** What would change, for people: a line for each source and destination, and one for each value. */
function linesOf({ changes, same }: SettingsApplied, colour: boolean): string[] {
  const count = (action: AppliedChange['action']) =>
    changes.filter((one) => one.action === action).length
  return [
    ...changes.flatMap(({ kind, name, action, changes: values, waiting }) => {
      const [sign, style] = SIGNS[action]
      const note = waiting > 0 ? `, and messages that wait for it: ${waiting}` : ''
      const line = `${sign} ${kind} ${name}${note}`
      const lines = action === 'delete' ? [] : values.map((one) => `    ${valueOf(one)}`)
      return [colour ? paint(style, line) : line, ...lines.map(printable)]
    }),
    `To create: ${count('create')}, to change: ${count('update')}, to delete: ${count('delete')}, unchanged: ${same}.`,
  ]
}

function valueOf({ path, from, to }: SettingChange): string {
  if (from === undefined) return `+ ${path}: ${JSON.stringify(to)}`
  if (to === undefined) return `- ${path}: ${JSON.stringify(from)}`
  // What is hidden is the same text before and after.
  return from === to
    ? `~ ${path}: is another one`
    : `~ ${path}: ${JSON.stringify(from)} → ${JSON.stringify(to)}`
}
