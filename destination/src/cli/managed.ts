import { Option, type Command } from 'commander'
import type {
  DestinationDetails,
  ManagedSetting,
  ManagedSettings,
  SettingChanged,
  SettingDeleted,
} from '../model/answers.js'
import { waitingIn } from '../model/delivery.js'
import type { Fields } from '../model/fields.js'
import type { WaitingChoice } from '../model/setting.js'
import { printable } from '../observe/printable.js'
import {
  actorHeader,
  addActor,
  addAdminOptions,
  findAdmin,
  pathOf,
  type AdminOptions,
  type AskAdmin,
} from './admin-client.js'
import { CommandError, EXIT, wholeNumber, type AddCommand } from './command.js'
import { DESTINATION, SOURCE, TENANT, type FieldFlags, type ManagedKind } from './managed-kind.js'
import { canAsk, CHOOSE_WAITING, confirm, question, UNCHANGED, waitingOption } from './question.js'
import { readObject, SHOWN_ONCE, textOf } from './settings-text.js'
import { table } from './table.js'

/** The options of every command that changes something. */
interface ChangeOptions extends AdminOptions {
  actor?: string
  json?: true
}

interface FieldOptions extends ChangeOptions, FieldFlags {
  from?: string
}

interface DeleteOptions extends ChangeOptions {
  waiting?: WaitingChoice
  yes?: true
}

interface RotationOptions extends ChangeOptions {
  secret?: string
  keep: 'new' | 'old'
  yes?: true
}

export const addSources: AddCommand = (program) => {
  addManaged(program, SOURCE)
}

export const addDestinations: AddCommand = (program) => {
  addManaged(program, DESTINATION)
}

export const addTenants: AddCommand = (program) => {
  addManaged(program, TENANT)
}

const SECRETS_NOTE = `
FILE is YAML or JSON with fields as in the settings file. It may name environment variables, such as \${SECRET}. Secrets are
given only so, because every user of the machine sees the arguments of a command.`

function addManaged(program: Command, kind: ManagedKind): void {
  const { name, description, examples } = kind
  const group = program.command(`${name}s`).description(description).addHelpText('after', examples)
  const begin = (verb: string, what: string) =>
    group.command(verb).description(what).argument('<name>', `name of the ${name}`)
  const forAll = (command: Command) => addAdminOptions(command).option('--json', 'print JSON')
  const forChanges = (command: Command) => forAll(addActor(command))

  const listing = group
    .command('list')
    .description(`list the ${name}s of the settings file and of the store`)
    .option('-q, --search <text>', 'only those with this text in their name or a URL')
    .option('-n, --limit <number>', 'the most that are listed', wholeNumber(1, 1_000), 100)
    .option('--after <name>', 'only those after this name')
  forAll(listing).action((options: ListOptions) => list(kind, options))

  forAll(begin('show', `show a ${name} without its secrets`)).action(
    (one: string, options: ChangeOptions) => show(kind, one, options),
  )

  const from = 'further fields, in YAML or JSON; - reads the standard input'
  const creation = kind.addFields(begin('create', kind.creates)).option('--from <file>', from)
  forChanges(creation)
    .addHelpText('after', SECRETS_NOTE)
    .action((one: string, options: FieldOptions) => create(kind, one, options))

  const updating = kind
    .addFields(begin('update', `change some fields of a ${name}`))
    .option('--from <file>', `${from}; null removes a field`)
  forChanges(updating)
    .addHelpText('after', SECRETS_NOTE)
    .action((one: string, options: FieldOptions) => update(kind, one, options))

  if (kind.isDestination) {
    for (const [verb, what] of [
      ['enable', 'send calls to a destination again'],
      ['disable', 'send nothing to a destination; what waits for it is kept'],
    ] as const) {
      forChanges(begin(verb, what)).action((one: string, options: ChangeOptions) =>
        change(kind, one, { enabled: verb === 'enable' }, `${verb}d`, options),
      )
    }
  }

  if (kind.secrets.length > 0) addRotation(kind, begin, forChanges)

  const deletion = begin('delete', `delete a ${name}`)
  if (kind.isDestination) deletion.addOption(waitingOption('that wait for it'))
  forChanges(deletion.option('-y, --yes', 'do not ask')).action(
    (one: string, options: DeleteOptions) => remove(kind, one, options),
  )
}

function addRotation(
  kind: ManagedKind,
  begin: (verb: string, what: string) => Command,
  forChanges: (command: Command) => Command,
): void {
  const [first] = kind.secrets
  const withSecret = (command: Command) => {
    const which = new Option('--secret <field>', 'which secret').choices(kind.secrets)
    return kind.secrets.length > 1 ? command.addOption(which.default(first)) : command
  }
  const rotation = begin('rotate', 'generate a second secret; both are valid until you revoke one')
  forChanges(withSecret(rotation)).action((one: string, options: RotationOptions) =>
    rotate(kind, one, options),
  )
  const kept = new Option('--keep <which>', 'which stays valid').choices(['new', 'old'])
  const revocation = withSecret(
    begin('revoke', 'end a rotation: one of the two secrets is no longer valid'),
  )
    .addOption(kept.default('new'))
    .option('-y, --yes', 'do not ask')
  forChanges(revocation).action((one: string, options: RotationOptions) =>
    revoke(kind, one, options),
  )
}

interface ListOptions extends AdminOptions {
  search?: string
  limit: number
  after?: string
  json?: true
}

async function list(kind: ManagedKind, { search, limit, after, ...options }: ListOptions) {
  const { ask } = await findAdmin(options)
  const query = new URLSearchParams({ limit: String(limit) })
  if (search !== undefined) query.set('q', search)
  if (after !== undefined) query.set('after', after)
  const found = (await ask(`/${kind.name}s?${query}`)) as ManagedSettings
  if (options.json) {
    console.log(JSON.stringify(found, null, 2))
    return
  }
  if (found.items.length === 0) console.log(`No ${kind.name} matches.`)
  else
    console.log(
      table([kind.columns, ...found.items.map(kind.row)])
        .map(printable)
        .join('\n'),
    )
  if (found.next === null) return
  console.error(`${found.total} match in all. Continue with --after ${found.next}.`)
}

const get = async (ask: AskAdmin, kind: ManagedKind, one: string) =>
  (await ask(pathOf(kind.name, one))) as ManagedSetting

async function show(kind: ManagedKind, one: string, options: ChangeOptions): Promise<void> {
  const { ask } = await findAdmin(options)
  const item = await get(ask, kind, one)
  if (options.json) {
    console.log(JSON.stringify(item, null, 2))
    return
  }
  const { origin, version, secrets, settings } = item
  const where = origin === 'file' ? 'in the settings file' : `in the store, version ${version}`
  const counts = Object.entries(secrets).map(([field, count]) => `${count} ${field}`)
  const has = counts.length > 0 ? ` It has ${counts.join(' and ')}.` : ''
  console.log(`# The ${kind.name} ${one} is ${where}.${has}`)
  console.log(await textOf(settings, undefined))
}

async function create(kind: ManagedKind, one: string, options: FieldOptions): Promise<void> {
  const given = options.from === undefined ? {} : await readObject(options.from)
  // There is nothing yet that `null` could remove.
  const fields = Object.entries(kind.fieldsOf(options, given, {})).filter(
    ([, value]) => value !== null,
  )
  const { ask } = await findAdmin(options)
  const headers = { 'If-None-Match': '*', ...actorHeader(options) }
  const fixes = { version_mismatch: `To change it, run: ${commandOf(kind, 'update', one)}` }
  const settings = { ...given, ...Object.fromEntries(fields) }
  const changed = await ask(pathOf(kind.name, one), settings, { method: 'PUT', headers, fixes })
  print(kind, changed as SettingChanged, 'created', options)
}

async function update(kind: ManagedKind, one: string, options: FieldOptions): Promise<void> {
  const given = options.from === undefined ? {} : await readObject(options.from)
  const { ask } = await findAdmin(options)
  const { settings, version } = await get(ask, kind, one)
  const patch = { ...given, ...kind.fieldsOf(options, given, settings) }
  if (Object.keys(patch).length === 0) {
    throw new CommandError(EXIT.usage, 'Say what to change. See --help.')
  }
  // A list of endpoints is decided by what was just read, and must not replace what somebody else has changed since.
  await change(kind, one, patch, 'changed', options, ask, version)
}

async function change(
  kind: ManagedKind,
  one: string,
  patch: Fields,
  done: string,
  options: ChangeOptions,
  askGiven?: AskAdmin,
  version: number | null = null,
): Promise<void> {
  const ask = askGiven ?? (await findAdmin(options)).ask
  const headers = { ...ifMatch(version), ...actorHeader(options) }
  const changed = await ask(pathOf(kind.name, one), patch, {
    method: 'PATCH',
    headers,
    fixes: repeatOf(kind, one),
  })
  print(kind, changed as SettingChanged, done, options)
}

/** What is in the settings file has no version. The destination says that it can't be changed here. */
const ifMatch = (version: number | null): Record<string, string> =>
  version === null ? {} : { 'If-Match': `"${version}"` }

async function rotate(kind: ManagedKind, one: string, options: RotationOptions): Promise<void> {
  const { ask } = await findAdmin(options)
  const path = pathOf(kind.name, one, `/rotation${queryOf({ secret: options.secret })}`)
  const changed = await ask(path, undefined, {
    method: 'POST',
    headers: actorHeader(options),
    fixes: {
      rotation_under_way: `To end it, run: ${rotationCommand(kind, 'revoke', one, options.secret)}`,
    },
  })
  print(kind, changed as SettingChanged, 'changed', options)
  if (options.json) return
  const { secret = kind.secrets[0] ?? '' } = options
  if ((changed as SettingChanged).item.secrets[secret] === 1) {
    console.log(`There was no ${secret} before, so this is the only one.`)
    return
  }
  console.log(
    `The former one stays valid too. Once everybody uses the new one, run: ${rotationCommand(kind, 'revoke', one, secret)}`,
  )
}

/** The command line that does something with one of a kind. */
const commandOf = ({ name }: ManagedKind, verb: string, one: string) =>
  `hookline-destination ${name}s ${verb} ${one}`

function rotationCommand(
  kind: ManagedKind,
  verb: 'rotate' | 'revoke',
  one: string,
  secret = kind.secrets[0],
): string {
  const flag = secret === kind.secrets[0] ? '' : ` --secret ${secret}`
  return commandOf(kind, verb, one) + flag
}

/** What to do if somebody else has changed one of a kind meanwhile. */
const repeatOf = (kind: ManagedKind, one: string) => ({
  version_mismatch: `To see it, run: ${commandOf(kind, 'show', one)}`,
})

async function revoke(kind: ManagedKind, one: string, options: RotationOptions): Promise<void> {
  const { secret, keep } = options
  const path = pathOf(kind.name, one, `/rotation${queryOf({ secret, keep })}`)
  const { ask } = await findAdmin(options)
  const revoked = `the ${keep === 'new' ? 'old' : 'new'} ${secret ?? kind.secrets[0]} of ${one}`
  await confirm(`From then on, ${revoked} is not valid.`, `revoke it`, one, options)
  const changed = await ask(path, undefined, {
    method: 'DELETE',
    headers: actorHeader(options),
    fixes: { no_rotation: `To start one, run: ${rotationCommand(kind, 'rotate', one, secret)}` },
  })
  print(kind, changed as SettingChanged, 'changed', options)
}

async function remove(kind: ManagedKind, one: string, options: DeleteOptions): Promise<void> {
  const { ask } = await findAdmin(options)
  let { waiting } = options
  let version: number | null = null
  if (!options.yes) {
    ;({ version } = await get(ask, kind, one))
    // The destination says that this can't be deleted here. There is nothing to confirm.
    if (version !== null) waiting = await confirmDeletion(kind, one, options, ask)
  }
  const deleted = (await ask(pathOf(kind.name, one, queryOf({ waiting })), undefined, {
    method: 'DELETE',
    headers: { ...ifMatch(version), ...actorHeader(options) },
    fixes: { ...repeatOf(kind, one), messages_waiting: `${CHOOSE_WAITING}.` },
  })) as SettingDeleted
  if (options.json) {
    console.log(JSON.stringify(deleted, null, 2))
    return
  }
  console.log(`The ${kind.name} ${one} is deleted.`)
  if (deleted.discarded > 0) console.log(`Messages deleted with it: ${deleted.discarded}.`)
  if (deleted.waiting > 0) {
    console.log(`Messages that wait for a new destination of this name: ${deleted.waiting}.`)
  }
}

async function confirmDeletion(
  kind: ManagedKind,
  one: string,
  options: DeleteOptions,
  ask: AskAdmin,
): Promise<WaitingChoice | undefined> {
  let { waiting } = options
  const count = kind.isDestination ? await waitingFor(ask, one) : 0
  if (count > 0) {
    const what = `Messages that wait for ${one}: ${count}.`
    if (waiting === undefined && canAsk(options.json)) {
      const typed = await question(`${what}\nType keep or discard: `)
      if (typed !== 'keep' && typed !== 'discard') throw new CommandError(EXIT.failed, UNCHANGED)
      waiting = typed
    } else if (waiting === undefined) {
      const message = `${what}\n${UNCHANGED} ${CHOOSE_WAITING}, and --yes.`
      throw new CommandError(EXIT.usage, message, 'not_confirmed')
    }
  }
  const cost = waiting === 'discard' ? ` Messages that will be deleted with it: ${count}.` : ''
  await confirm(kind.costOf(one) + cost, 'delete it', one, options)
  return waiting
}

async function waitingFor(ask: AskAdmin, name: string): Promise<number> {
  const query = new URLSearchParams({ name })
  return waitingIn((await ask(`/destination?${query}`)) as DestinationDetails)
}

function queryOf(given: Record<string, string | undefined>): string {
  const query = new URLSearchParams()
  for (const [name, value] of Object.entries(given)) if (value !== undefined) query.set(name, value)
  return query.size === 0 ? '' : `?${query}`
}

function print(
  { name: kind }: ManagedKind,
  changed: SettingChanged,
  done: string,
  { json }: ChangeOptions,
): void {
  if (json) {
    console.log(JSON.stringify(changed, null, 2))
    return
  }
  const { item, generated, changed: isChanged } = changed
  const note = isChanged ? `is ${done}` : `has these settings already`
  console.log(`The ${kind} ${item.name} ${note}.`)
  const secrets = Object.entries(generated)
  for (const [field, value] of secrets) console.log(`${field}: ${value}`)
  if (secrets.length > 0) console.log(SHOWN_ONCE)
}
