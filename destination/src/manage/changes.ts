import { setTimeout } from 'node:timers/promises'
import { isFields, type Fields } from '../model/fields.js'
import type { AppliedChange, AuditEntry, SettingChanged, SettingDeleted } from '../model/answers.js'
import type { Actor } from '../model/audit.js'
import { waitingIn } from '../model/delivery.js'
import type { Kind, WaitingChoice } from '../model/setting.js'
import { eachInSlices } from '../model/slices.js'
import { InOrder } from '../model/in-order.js'
import { FIELDS } from '../settings/check.js'
import type { Problem } from '../settings/problem.js'
import type { Follower } from '../store/follower.js'
import { untilNoConflict } from '../store/store-error.js'
import type {
  AudiencePort,
  MaintainPort,
  ReadPort,
  RecordChange,
  RecordPort,
  SharedPort,
} from '../store/store.js'
import type { NotedChange } from './audit.js'
import { Outlook, type Planned, type Wish } from './outlook.js'
import type { Entry, Managed } from './managed.js'
import { mergePatch } from './merge-patch.js'
import {
  alreadyThere,
  getsAlerts,
  inFile,
  inUse,
  invalidSettings,
  messagesWait,
  noKey,
  noRotation,
  tenantInUse,
  underWay,
  unknown,
  unusableHere,
  wrongRevision,
  wrongVersion,
} from './refusals.js'
import type { Sealer } from './seal.js'
import { generate, secretsIn, withSecrets, type Completed, type SecretField } from './secrets.js'
import { changesBetween, shownSetting, shownUrl, webhooksOf, withoutDefaults } from './shown.js'
import { revisionOf, wishesFor } from './wanted.js'

/** What {@link Changes} need. */
export interface ChangesParts {
  store: Pick<RecordPort, 'writeRecords'> &
    SharedPort<'onRecords'> &
    Pick<ReadPort, 'stats'> &
    Pick<AudiencePort, 'forgetDestinations'> &
    Pick<MaintainPort, 'completeStats' | 'discard'>
  managed: Managed
  follower: Pick<Follower, 'catchUp' | 'revision'>
  pauses: {
    /** What ends the pauses of destinations. */
    endsOf(destinations: readonly string[]): Promise<RecordChange[]>
    /** Obeys what was written. */
    catchUp(): Promise<void>
  }
}

/** Of which version a change may be made. */
export interface Condition {
  /** The versions of `If-Match`; `any` if there only has to be one. */
  match?: readonly number[] | 'any' | undefined
  /** `If-None-Match: *`: there must not be one yet, unless it has the same content. */
  isNew?: boolean | undefined
}

/** What is to be changed, by whom. */
export interface Order {
  kind: Kind
  name: string
  actor: Actor
  condition: Condition
  check: Check
}

/**
 * Throws a Refusal if whoever has ordered a change may not make it any more. It is called when the change is decided, behind all
 * changes that came first.
 */
type Check = () => Promise<void>

/** What the store is to have, by whom. */
export interface ApplyOrder {
  /** Lists in the form of the settings file, which are not checked yet. A list that is left out changes nothing. */
  wanted: Fields
  /** Whether nothing is changed, so that it only tells what would be. */
  dryRun: boolean
  /** Whether what is not in a list is deleted. */
  prune: boolean
  waiting: WaitingChoice | undefined
  actor: Actor
  /** The revision that the changes were decided by; `undefined` for any. */
  match: string | undefined
  check: Check
}

/** What an {@link ApplyOrder} has changed, or would change. */
export interface Applied {
  /** The revision of the settings: that which it decided by in a dry run, else that after the change. */
  revision: string
  /** How many were as they are wanted. */
  same: number
  /** How many messages waited for deleted destinations and were deleted. */
  discarded: number
  /** Each is computed when it is read, because there may be thousands of them. */
  changes: Iterable<AppliedChange>
}

type Verb = AuditEntry['action']

/** What a change is decided by. */
interface Decided {
  sealer: Sealer
  /** The revision of the store. */
  revision: number
}

/** The fields that show that a destination is deleted. */
type Leaving = Pick<Wish, 'kind' | 'name'> & { after: unknown }

/**
 * How often a change is decided again, because another one came first. Writers wait for each other a few ms, so only many
 * of them at once reach this.
 */
const TRIES = 50

/** Messages that are deleted at once, so that other calls of the store do not wait. */
const DISCARD_SLICE = 500

/** Other processes may hold messages of a destination that is deleted until they know of it. In ms: how long, and how often to look. */
const OTHERS_MS = 3_000
const LOOK_MS = 100

/** Changes sources, destinations and tenants. A change is in use in this process when its call resolves. */
export class Changes {
  readonly #parts: ChangesParts
  readonly #inOrder = new InOrder()

  constructor(parts: ChangesParts) {
    this.#parts = parts
  }

  /**
   * Creates or replaces a source, destination or tenant. Secrets that are not given stay as they are, or are generated.
   *
   * @throws Refusal that names every mistake.
   */
  put(order: Order, given: Fields): Promise<SettingChanged> {
    return this.#change(order, 'update', (before) => withSecrets(order.kind, given, before?.raw))
  }

  /** Applies a JSON merge patch. @throws Refusal that names every mistake. */
  patch(order: Order, patch: Fields): Promise<SettingChanged> {
    return this.#changePresent(order, 'update', ({ raw }) => ({
      // A null that is meant for no field there is stays, so that the check names it.
      raw: {
        ...mergePatch(withoutDefaults(order.kind, raw), patch),
        ...misspelledNulls(order.kind, patch),
      },
      generated: {},
    }))
  }

  /**
   * Replaces the URLs of the endpoints of a destination, in their order, and nothing else. An endpoint with headers stays at
   * its origin, so that the values of the headers never go to a server of whoever chooses the URL.
   *
   * @throws Refusal that names every mistake.
   */
  changeUrls(order: Order, urls: readonly string[]): Promise<SettingChanged> {
    return this.#changePresent(order, 'update', ({ raw }) => {
      const webhooks = webhooksOf(raw['webhooks'])
      const problems = wrongUrls(webhooks, urls)
      if (problems.length > 0)
        throw invalidSettings(
          `The settings of the destination ${JSON.stringify(order.name)}`,
          problems,
        )
      const changed = webhooks.map((webhook, i) =>
        urls[i] === shownUrl(webhook['url']) ? webhook : { ...webhook, url: urls[i] },
      )
      return { raw: { ...raw, webhooks: changed }, generated: {} }
    })
  }

  /** Adds a secret. If there is one already, both are valid. @throws Refusal if there are two already. */
  rotate(order: Order, field: SecretField): Promise<SettingChanged> {
    return this.#changePresent(order, 'rotate', ({ raw }) => {
      const present = secretsIn(raw, field)
      if (present.length > 1) throw underWay(field)
      const added = generate(field)
      const secrets = present.length > 0 ? [...present, added] : added
      return { raw: { ...raw, [field]: secrets }, generated: { [field]: added } }
    })
  }

  /** Ends a rotation: only the new secret, or only the old one, stays valid. @throws Refusal if there is only one. */
  revoke(order: Order, field: SecretField, keep: 'new' | 'old'): Promise<SettingChanged> {
    return this.#changePresent(order, 'revoke', ({ raw }) => {
      const [former, added] = secretsIn(raw, field)
      if (added === undefined) throw noRotation(field)
      return { raw: { ...raw, [field]: keep === 'new' ? added : former }, generated: {} }
    })
  }

  /**
   * Deletes a source, destination or tenant.
   *
   * @param choice - What becomes of the messages that wait for the destination; `undefined` if nothing was chosen.
   * @throws Refusal if messages wait and nothing was chosen, if a destination takes the calls of the source, or if the tenant
   * has sources or destinations.
   */
  async delete(order: Order, choice?: WaitingChoice): Promise<SettingDeleted> {
    const { kind, name, actor } = order
    const wish = { kind, name, path: '', after: undefined }
    await this.#decidedForOne(order, async (before, decided) => {
      if (!before && choice !== 'discard') throw unknown(kind, name)
      const waiting = await this.#waitingIn([wish], choice)
      if (!before) {
        // A deletion that was interrupted goes on with the messages.
        if (waiting.size === 0) throw unknown(kind, name)
        await this.#endPauses([name])
        return
      }
      const plan = await this.#plan([{ ...wish, before }])
      requireChoice(waiting, choice)
      await this.#make(plan, 'update', actor, decided, choice)
    })
    const discarded = kind === 'destination' && choice === 'discard' ? await this.#discard(name) : 0
    // It is deleted now: a server that is away must not make an error of it. A discarding can be repeated.
    const left = await this.#waitingIn([wish], choice ?? 'keep')
    return { discarded, waiting: left.get(name) ?? 0 }
  }

  /**
   * Makes the store have what is wanted: all of it, or nothing.
   *
   * @throws Refusal that names every mistake; and as {@link delete}.
   */
  async apply(order: ApplyOrder): Promise<Applied> {
    const { wanted, dryRun, prune, waiting: choice, actor, match } = order
    const { managed } = this.#parts
    const { plan, same, waiting, revision } = await this.#decided(order.check, async (decided) => {
      const before = managed.versions()
      if (match !== undefined && match !== revisionOf(before)) throw wrongRevision()
      const { wishes, problems } = await wishesFor(wanted, prune, managed)
      checkUsable(wishes, prune ? wanted : {}, managed)
      const all = await this.#plan(wishes, problems)
      const plan = all.filter(({ isSame }) => !isSame)
      const waiting = await this.#waitingIn(plan, choice)
      const result = { plan, same: all.length - plan.length, waiting }
      if (dryRun) return { ...result, revision: revisionOf(before) }
      requireChoice(result.waiting, choice)
      const made = await this.#make(plan, 'update', actor, decided, choice)
      return { ...result, revision: revisionOf(versionsAfter(before, plan, made)) }
    })
    let discarded = 0
    if (!dryRun && choice === 'discard') {
      for (const { name } of plan.filter(isLeaving)) discarded += await this.#discard(name)
    }
    return { revision, same, discarded, changes: appliedBy(plan, waiting, dryRun) }
  }

  async #endPauses(destinations: readonly string[]): Promise<void> {
    const { store, pauses } = this.#parts
    const ends = await pauses.endsOf(destinations)
    if (ends.length === 0) return
    await store.writeRecords(ends)
    await pauses.catchUp()
  }

  #changePresent(
    order: Order,
    verb: Verb,
    decide: (before: Entry) => Completed,
  ): Promise<SettingChanged> {
    return this.#change(order, verb, (before) => {
      if (!before) throw unknown(order.kind, order.name)
      return decide(before)
    })
  }

  /** Makes a change. `decide` gives the new settings, and may be called again if another change comes first. */
  #change(
    order: Order,
    verb: Verb,
    decide: (before: Entry | undefined) => Completed,
  ): Promise<SettingChanged> {
    const { kind, name, condition, actor } = order
    return this.#decidedForOne(order, async (before, decided) => {
      const plan = await this.#plan([{ kind, name, path: '', before, after: decide(before) }])
      // A wish for new settings is planned with them.
      const [{ after, isSame }] = plan as [Planned & { after: NonNullable<Planned['after']> }]
      if (before && isSame) {
        const item = shownSetting(kind, before.value, before.version)
        return { item, created: false, changed: false, generated: {} }
      }
      if (before && condition.isNew) throw alreadyThere(kind, name)
      const [version] = await this.#make(plan, verb, actor, decided)
      const item = shownSetting(kind, after.value, version)
      return { item, created: !before, changed: true, generated: after.generated }
    })
  }

  /** Decides about one source or destination, as {@link #decided} does. */
  #decidedForOne<T>(
    order: Order,
    decide: (before: Entry | undefined, decided: Decided) => Promise<T>,
  ): Promise<T> {
    const { kind, name } = order
    const { managed } = this.#parts
    return this.#decided(
      order.check,
      (decided) => {
        const why = managed.whyUnusable(kind, name)
        if (why !== undefined) throw unusableHere(kind, name, why)
        const before = managed.entry(kind, name)
        checkMatch(order, before)
        return decide(before, decided)
      },
      order,
    )
  }

  /**
   * Decides something by the newest state of the store, again and again until no other change comes first.
   *
   * @param about - What it decides about, if that is one thing.
   */
  #decided<T>(
    check: Check,
    decide: (decided: Decided) => Promise<T>,
    about?: Pick<Order, 'kind' | 'name'>,
  ): Promise<T> {
    const { managed, follower } = this.#parts
    return this.inTurn(() =>
      untilNoConflict(TRIES, async () => {
        await follower.catchUp()
        await check()
        if (about && managed.inFile(about.kind, about.name)) throw inFile(about.kind, about.name)
        const { sealer } = managed
        if (!sealer) throw noKey()
        return decide({ sealer, revision: follower.revision })
      }),
    )
  }

  /**
   * Checks what becomes of everything that changes together.
   *
   * @param problems - Those that are known already.
   * @throws Refusal that names every mistake.
   */
  async #plan(wishes: readonly Wish[], problems: readonly Problem[] = []): Promise<Planned[]> {
    const outlook = new Outlook(this.#parts.managed, wishes)
    const plan: Planned[] = []
    const found = [...problems]
    await eachInSlices(wishes, (wish) => {
      const checked = outlook.check(wish)
      if ('problems' in checked) found.push(...checked.problems)
      else plan.push(checked)
    })
    if (found.length > 0) throw invalidSettings(whose(wishes), found)
    const { alerts } = this.#parts.managed.file
    for (const { name } of plan.filter(isLeaving)) {
      if (name === alerts?.destination) throw getsAlerts(name)
    }
    for (const [source, takers] of outlook.stillTaken()) throw inUse(source, takers)
    for (const [tenant, owned] of outlook.stillOwning()) throw tenantInUse(tenant, owned)
    return plan
  }

  /**
   * Writes what is planned.
   *
   * @param choice - With `keep`, the pauses of destinations that are deleted stay too: they hold the messages that wait.
   * @returns the versions.
   */
  async #make(
    plan: readonly Planned[],
    verb: Verb,
    actor: Actor,
    { sealer, revision }: Decided,
    choice?: WaitingChoice,
  ): Promise<number[]> {
    const changes: RecordChange[] = []
    await eachInSlices(plan, ({ kind, name, before, after }) => {
      const entry = JSON.stringify({
        action: after ? (before ? verb : 'create') : 'delete',
        ...actor,
        changes: changesBetween(kind, before?.value, after?.value),
      } satisfies NotedChange)
      const body = after && sealer.seal({ kind, name }, JSON.stringify(after.raw))
      changes.push({ kind, name, version: before?.version ?? 0, body, entry })
    })
    const destinations = plan.flatMap(({ after }) =>
      after && 'webhooks' in after.value ? [after.value] : [],
    )
    const { managed, pauses, store } = this.#parts
    const { owners } = managed
    changes.push(...owners.used(destinations))
    const leaving = plan.filter(isLeaving).map(({ name }) => name)
    changes.push(...leaving.map((name) => owners.deleted(name)))
    if (choice !== 'keep' && leaving.length > 0) changes.push(...(await pauses.endsOf(leaving)))
    if (changes.length === 0) return []
    // The process may have ended before it forgot the former destination, or another one has begun a list for it since.
    const again = destinations.map(({ name }) => name).filter((name) => owners.wasDeleted(name))
    if (again.length > 0) await store.forgetDestinations(again)
    const versions = await this.#write(changes, revision)
    if (leaving.length > 0) {
      await store.forgetDestinations(leaving).catch(() => undefined)
      await pauses.catchUp().catch(() => undefined)
    }
    return versions.slice(0, plan.length)
  }

  /**
   * Runs `work` between two changes, so that no change is decided by other settings than those it is applied to. Everything that
   * the store has is known then, as far as it answers.
   */
  betweenChanges<T>(work: () => Promise<T>): Promise<T> {
    return this.inTurn(async () => {
      await this.#parts.follower.catchUp().catch(() => undefined)
      return work()
    })
  }

  /** Runs one piece of work of this process after the other, so that they don't make each other decide again. */
  inTurn<T>(work: () => Promise<T>): Promise<T> {
    return this.#inOrder.run(work)
  }

  async #write(changes: RecordChange[], revision?: number): Promise<number[]> {
    const { store, follower } = this.#parts
    const versions = await store.writeRecords(changes, revision)
    // The change is made. If it can't be read back now, the follower does that later.
    await follower.catchUp().catch(() => undefined)
    return versions
  }

  /**
   * How many messages wait for each destination that is deleted, of those with any. With `keep` the counts are only shown, so
   * the last count of a server that is away will do.
   *
   * @throws StoreError if a server is away and the messages are not to be kept.
   */
  async #waitingIn(
    plan: readonly Leaving[],
    choice: WaitingChoice | undefined,
  ): Promise<Map<string, number>> {
    const { store } = this.#parts
    const leaving = new Set(plan.filter(isLeaving).map(({ name }) => name))
    if (leaving.size === 0) return new Map()
    const stats = await (choice === 'keep' ? store.stats() : store.completeStats())
    return new Map(
      stats
        .filter(({ destination }) => leaving.has(destination))
        .map((one) => [one.destination, waitingIn(one)] as const)
        .filter(([, waiting]) => waiting > 0),
    )
  }

  /** It ends if there is a destination of this name again: what waits then may be for that one. */
  async #discard(name: string): Promise<number> {
    const { store } = this.#parts
    const isShared = store.shared !== undefined
    const until = performance.now() + (isShared ? OTHERS_MS : 0)
    let all = 0
    while (this.#parts.managed.get('destination', name) === undefined) {
      const count = await store.discard(name, DISCARD_SLICE)
      all += count
      if (count === DISCARD_SLICE) continue
      if (performance.now() >= until || !(await this.#hasWaiting(name))) break
      await setTimeout(LOOK_MS)
    }
    return all
  }

  async #hasWaiting(name: string): Promise<boolean> {
    const wish = { kind: 'destination', name, after: undefined } as const
    return (await this.#waitingIn([wish], 'discard')).size > 0
  }
}

function misspelledNulls(kind: Kind, patch: Fields): Fields {
  const all = Object.entries(patch)
  return Object.fromEntries(
    all.filter(([name, value]) => value === null && !FIELDS[kind].includes(name)),
  )
}

/**
 * @param pruned - The lists that the store is to have nothing besides.
 * @throws Refusal if a wish is about something that this process does not use as the store has it.
 */
function checkUsable(wishes: readonly Wish[], pruned: Fields, managed: Managed): void {
  const names = new Set(wishes.map(({ kind, name }) => `${kind} ${name}`))
  for (const { kind, name, message } of managed.unusable()) {
    if (names.has(`${kind} ${name}`) || pruned[`${kind}s`] !== undefined) {
      throw unusableHere(kind, name, message)
    }
  }
}

function checkMatch({ kind, name, condition: { match } }: Order, before: Entry | undefined): void {
  if (match === undefined) return
  const fits = before && (match === 'any' || match.includes(before.version))
  if (!fits) throw wrongVersion(kind, name, before?.version)
}

/** Whether a destination is deleted, for which messages may wait. */
function isLeaving({ kind, after }: Leaving): boolean {
  return kind === 'destination' && after === undefined
}

/** @throws Refusal if messages wait for destinations that are deleted, and nobody has said what becomes of them. */
function requireChoice(
  waiting: ReadonlyMap<string, number>,
  choice: WaitingChoice | undefined,
): void {
  if (waiting.size === 0 || choice !== undefined) return
  const all = Array.from(waiting.values()).reduce((sum, one) => sum + one, 0)
  throw messagesWait([...waiting.keys()], all)
}

/** Whose settings have mistakes. */
function whose([first]: readonly Wish[]): string {
  if (first?.path !== '') return 'The settings'
  return `The settings of the ${first.kind} ${JSON.stringify(first.name)}`
}

/** The versions of everything in the store after a change. */
function versionsAfter(
  before: readonly number[],
  plan: readonly Planned[],
  made: readonly number[],
): number[] {
  const former = new Set(plan.map((one) => one.before?.version))
  const added = made.filter((_, index) => plan[index]?.after)
  return [...before.filter((version) => !former.has(version)), ...added]
}

function* appliedBy(
  plan: readonly Planned[],
  waiting: ReadonlyMap<string, number>,
  dryRun: boolean,
): Generator<AppliedChange> {
  for (const { kind, name, before, after } of plan) {
    yield {
      kind,
      name,
      action: after ? (before ? 'update' : 'create') : 'delete',
      changes: changesBetween(kind, before?.value, after?.value),
      generated: dryRun ? {} : (after?.generated ?? {}),
      waiting: after ? 0 : (waiting.get(name) ?? 0),
    }
  }
}

function wrongUrls(webhooks: readonly Fields[], urls: readonly string[]): Problem[] {
  if (webhooks.length !== urls.length) {
    const message = `expected the URLs of all ${webhooks.length} endpoints, got ${urls.length}.`
    return [{ path: 'webhooks', message }]
  }
  return webhooks.flatMap(({ url, headers }, i) => {
    const hasHeaders = isFields(headers) && Object.keys(headers).length > 0
    const origin = originOf(url)
    if (!hasHeaders || originOf(urls[i]) === origin) return []
    const message = `expected a URL that starts with ${origin}/, because this endpoint has headers whose values may only go there.`
    return [{ path: `webhooks[${i}].url`, message }]
  })
}

function originOf(url: unknown): string {
  return typeof url === 'string' && URL.canParse(url) ? new URL(url).origin : ''
}
