import { setTimeout } from 'node:timers/promises'
import { isFields, type Fields } from '../model/fields.js'
import type {
  AppliedChange,
  AuditEntry,
  AuditLog,
  ManagedSetting,
  ManagedSettings,
  SettingChanged,
  SettingDeleted,
} from '../model/answers.js'
import { PAUSE_KIND, type Actor } from '../model/audit.js'
import { waitingIn } from '../model/delivery.js'
import { KINDS, type Kind, type WaitingChoice } from '../model/setting.js'
import { withoutQuery } from '../model/shown-url.js'
import { eachInSlices } from '../model/slices.js'
import { Turns } from '../model/turns.js'
import { FIELDS } from '../settings/check.js'
import type { Problem } from '../settings/problem.js'
import type { Follower } from '../store/follower.js'
import { isConflict, untilNoConflict } from '../store/store-error.js'
import type {
  AudiencePort,
  LogEntry,
  MaintainPort,
  ReadPort,
  RecordChange,
  RecordPort,
} from '../store/store.js'
import { Outlook, type Planned, type Wish } from './outlook.js'
import type { Entry, Managed, Setting } from './managed.js'
import { mergePatch } from './merge-patch.js'
import { writeOwners } from './owners.js'
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
import {
  changesBetween,
  exported,
  shownSetting,
  shownUrl,
  webhooksOf,
  withoutDefaults,
} from './shown.js'
import { revisionOf, wishesFor } from './wanted.js'

/** What a manager needs. */
export interface ManagerParts {
  store: Pick<RecordPort, 'writeRecords' | 'recordLog' | 'onRecords'> &
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

/** A page of a list. */
export interface Page {
  /** Only what has this text in its name or a URL; an empty text for all. */
  q: string
  after: string | undefined
  limit: number
  /** Only destinations that take the calls of this source; `undefined` for all. */
  source?: string | undefined
  /** Only sources or destinations of this tenant; `undefined` for all. */
  tenant?: string | undefined
}

type Verb = AuditEntry['action']

/** What a change is decided by. */
interface Decided {
  sealer: Sealer
  /** The revision of the store. */
  revision: number
}

/** What says whether a destination is deleted. */
type Leaving = Pick<Wish, 'kind' | 'name'> & { after: unknown }

/** The part of an audit entry that is in its text. */
type Noted = Pick<AuditEntry, 'action' | 'by' | 'from' | 'changes'>
type SomeNoted = Pick<Noted, 'action'> & Partial<Noted>

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

/** Entries of the audit log that are read at once: each may have hundreds of KB. */
const AUDIT_SLICE = 20

/** A page of the audit log ends after so many characters of entries, so that no answer takes much memory. */
const AUDIT_CHARACTERS = 1_000_000

/** Records that are encrypted again at once. */
const RESEAL_SLICE = 100

/** How many of these slices may meet changes by others before the next start is left to go on. */
const RESEAL_CONFLICTS = 20

/** Reads and changes sources, destinations and tenants. A change is in use in this process when its call resolves. */
export class Manager {
  readonly #parts: ManagerParts
  /** One change of this process comes after the other, so that they don't make each other decide again. */
  readonly #turns = new Turns()

  constructor(parts: ManagerParts) {
    this.#parts = parts
  }

  list(kind: Kind, { q, after, limit, source, tenant }: Page): ManagedSettings {
    const text = q.toLowerCase()
    const names = this.#all(kind)
      .filter((value) => matches(value, text) && takes(value, source) && belongs(value, tenant))
      .map(({ name }) => name)
    names.sort()
    const rest = after === undefined ? names : names.filter((name) => name > after)
    const page = rest.slice(0, limit)
    return {
      items: page.map((name) => this.get(kind, name)),
      total: names.length,
      canChange: this.#parts.managed.sealer !== undefined,
      next: rest.length > limit ? (page.at(-1) ?? null) : null,
    }
  }

  /** @throws Refusal if there is none. */
  get(kind: Kind, name: string): ManagedSetting {
    const { managed } = this.#parts
    const value = managed.get(kind, name)
    if (!value) throw unknown(kind, name)
    return shownSetting(kind, value, managed.entry(kind, name)?.version)
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

  /** Everything in the store, in the form of the settings file and by name. Each is computed when it is read. */
  export(): { revision: string; settings: Record<`${Kind}s`, Iterable<Fields>> } {
    const { managed } = this.#parts
    const of = (kind: Kind) => exportedOf(kind, Array.from(managed.entries(kind)))
    return {
      revision: revisionOf(managed.versions()),
      settings: { tenants: of('tenant'), sources: of('source'), destinations: of('destination') },
    }
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

  /**
   * What was changed by whom, the newest first.
   *
   * @param about - The source, destination or tenant; `undefined` for all.
   * @param before - The id of an entry to continue behind.
   * @returns fewer than `limit` if they are long.
   */
  async audit(
    about: Pick<Order, 'kind' | 'name'> | undefined,
    before: number | undefined,
    limit: number,
  ): Promise<AuditLog> {
    const entries: AuditEntry[] = []
    let last = before
    for (let count = 0, characters = 0; ;) {
      const wanted = Math.min(AUDIT_SLICE, limit - count)
      const log = await this.#log(about, last, wanted)
      for (const { kind: given, entry, ...rest } of log) {
        const kind = given === PAUSE_KIND ? 'destination' : KINDS.find((one) => one === given)
        if (kind) entries.push({ ...rest, kind, ...notedIn(entry) })
        last = rest.id
        count++
        characters += entry.length
        if (count === limit || characters >= AUDIT_CHARACTERS) return { entries, next: last }
      }
      if (log.length < wanted) return { entries, next: null }
    }
  }

  /** The pauses of a destination have records of their own, but are changes of the destination for those who read the log. */
  async #log(
    about: Pick<Order, 'kind' | 'name'> | undefined,
    before: number | undefined,
    limit: number,
  ): Promise<LogEntry[]> {
    const { store } = this.#parts
    if (about?.kind !== 'destination') return store.recordLog(about, before, limit)
    const keys = [about, { kind: PAUSE_KIND, name: about.name }]
    const logs = await Promise.all(keys.map((key) => store.recordLog(key, before, limit)))
    const inOrder = logs.flat().sort((a, b) => b.id - a.id)
    return inOrder.slice(0, limit)
  }

  /** Encrypts again what is not encrypted with the first key. @returns how many records. */
  async reseal(): Promise<number> {
    let all = 0
    let conflicts = 0
    for (;;) {
      try {
        const count = await this.#turns.run(() => this.#reseal())
        all += count
        if (count < RESEAL_SLICE) return all
      } catch (error) {
        // Somebody changes the settings meanwhile, or another process does the same.
        if (!isConflict(error) || ++conflicts === RESEAL_CONFLICTS) throw error
      }
    }
  }

  async #reseal(): Promise<number> {
    const { managed, follower } = this.#parts
    const { sealer } = managed
    if (!sealer) return 0
    await follower.catchUp()
    const changes = KINDS.flatMap((kind) =>
      Array.from(managed.entries(kind))
        .filter(([, { keyId }]) => keyId !== sealer.keyId)
        .slice(0, RESEAL_SLICE)
        .map(([name, { version, raw }]): RecordChange => {
          const body = sealer.seal({ kind, name }, JSON.stringify(raw))
          return { kind, name, version, body }
        }),
    ).slice(0, RESEAL_SLICE)
    if (changes.length > 0) await this.#write(changes)
    return changes.length
  }

  /** Writes down to which tenants the names of the destinations belong, before messages are stored under these names. */
  keepOwners(): Promise<void> {
    const { managed, store } = this.#parts
    return this.#turns.run(async () => {
      const stored = await store.stats()
      await writeOwners(this.#parts, () => {
        const { destinations } = managed.settings()
        const { owners } = managed
        return [...owners.used(destinations), ...owners.unused(destinations, stored)]
      })
    })
  }

  /**
   * Frees the names that nobody uses any more, once the store can't have anything of them any more. Their pauses end then: a
   * destination of the name would be another one. It also says again which names are in use: a process with other settings, which is just
   * being replaced, may have said the opposite.
   */
  freeNames(retentionMs: number): Promise<void> {
    const { managed, store, pauses } = this.#parts
    return this.#turns.run(async () => {
      await writeOwners(this.#parts, async () => {
        const { owners } = managed
        const freed = await owners.free(managed.settings().destinations, retentionMs, store)
        const ends = await pauses.endsOf(freed.map(({ name }) => name))
        const { destinations } = managed.settings()
        return [
          ...owners.used(destinations),
          ...owners.unused(destinations, []),
          // They come first, because a name that is free is not looked at again.
          ...ends,
          ...freed,
        ]
      })
      await pauses.catchUp()
    })
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
    return this.#turns.run(() =>
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
      } satisfies Noted)
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
   * Does something while nothing is decided here: what was decided before would otherwise be decided by other settings than
   * those that it comes to. Everything that the store has is known then, as far as it answers.
   */
  betweenChanges<T>(work: () => Promise<T>): Promise<T> {
    return this.#turns.run(async () => {
      await this.#parts.follower.catchUp().catch(() => undefined)
      return work()
    })
  }

  async #write(changes: RecordChange[], revision?: number): Promise<number[]> {
    const { store, follower } = this.#parts
    const versions = await store.writeRecords(changes, revision)
    // The change is made. If it can't be read back now, the follower does that later.
    await follower.catchUp().catch(() => undefined)
    return versions
  }

  #all(kind: Kind): readonly Setting[] {
    return this.#parts.managed.settings()[`${kind}s`]
  }

  /**
   * How many messages wait for each destination that is deleted, of those with any. If they are to be kept, the numbers decide nothing, and
   * a server that is away has its last count.
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
    const isShared = store.onRecords !== undefined
    const until = performance.now() + (isShared ? OTHERS_MS : 0)
    let all = 0
    while (this.#all('destination').every((one) => one.name !== name)) {
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

/** The store may have entries about pauses without some of the fields. */
function notedIn(entry: string): Noted {
  const { action, by = null, from = null, changes = [] } = JSON.parse(entry) as SomeNoted
  return { action, by, from, changes }
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
      ...{ kind, name, action: after ? (before ? 'update' : 'create') : 'delete' },
      changes: changesBetween(kind, before?.value, after?.value),
      generated: dryRun ? {} : (after?.generated ?? {}),
      waiting: after ? 0 : (waiting.get(name) ?? 0),
    }
  }
}

function* exportedOf(kind: Kind, entries: [string, Entry][]): Generator<Fields> {
  entries.sort(([a], [b]) => (a < b ? -1 : 1))
  for (const [, { value }] of entries) yield exported(kind, value)
}

function matches(value: Setting, text: string): boolean {
  if (value.name.toLowerCase().includes(text)) return true
  if ('title' in value && value.title?.toLowerCase().includes(text)) return true
  return (
    'webhooks' in value &&
    value.webhooks.some(({ url }) => withoutQuery(url).toLowerCase().includes(text))
  )
}

function takes(value: Setting, source: string | undefined): boolean {
  return source === undefined || ('sources' in value && value.sources.includes(source))
}

function belongs(value: Setting, tenant: string | undefined): boolean {
  return tenant === undefined || ('tenant' in value && value.tenant === tenant)
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
