import { isDeepStrictEqual } from 'node:util'
import { isFields, type Fields } from '../http/json-body.js'
import { checkDestination, checkSource } from '../settings/check.js'
import type { Problem } from '../settings/problem.js'
import { refusedEndpointsOf } from '../settings/reach.js'
import { checkSourcesOf, type BrokenRelation } from '../settings/relations.js'
import type { Destination, Source } from '../settings/settings.js'
import type { Entry, Kind, Managed } from './managed.js'
import type { Completed } from './secrets.js'
import { restoreHidden, toRaw } from './shown.js'

/** What becomes of one source or destination by a change. */
export interface Wish {
  kind: Kind
  name: string
  /** Where the new settings are among those that were given; empty if they are all that was given. */
  path: string
  /** What the store has under this name. */
  before: Entry | undefined
  /** The new settings, which are not checked yet; `undefined` deletes it. */
  after: { raw: unknown; generated: Completed['generated'] } | undefined
}

/** A wish that can be fulfilled. */
export interface Planned extends Pick<Wish, 'kind' | 'name' | 'before'> {
  /** `undefined` deletes it. */
  after: { raw: Fields; value: Source | Destination; generated: Completed['generated'] } | undefined
  /** Whether it changes nothing. */
  isSame: boolean
}

/**
 * The sources and destinations that there will be after some wishes. All of them are decided together, so that each may rely on the
 * others: a destination takes a source that is created with it, and two sources exchange their write keys.
 */
export class Outlook {
  readonly #managed: Managed
  /** Which of the sources with a wish will exist. */
  readonly #sources = new Map<string, boolean>()
  /** The destinations with a wish. */
  readonly #destinations = new Set<string>()
  /** The source that will have a write key, of those with a wish. */
  readonly #writeKeys = new Map<string, string>()
  #names: string[] | undefined

  constructor(managed: Managed, wishes: readonly Wish[]) {
    this.#managed = managed
    for (const { kind, name, after } of wishes) {
      if (kind === 'destination') {
        this.#destinations.add(name)
        continue
      }
      this.#sources.set(name, after !== undefined)
      for (const key of after ? writeKeysIn(after.raw) : []) {
        if (typeof key === 'string' && !this.#writeKeys.has(key)) this.#writeKeys.set(key, name)
      }
    }
  }

  /** The sources that will not exist although destinations without a wish take their calls, with these destinations. */
  stillTaken(): Map<string, string[]> {
    const taken = new Map<string, string[]>()
    if (!Array.from(this.#sources.values()).includes(false)) return taken
    for (const { name, sources } of this.#managed.settings().destinations) {
      if (this.#destinations.has(name)) continue
      for (const source of sources.filter((one) => this.#sources.get(one) === false)) {
        taken.set(source, [...(taken.get(source) ?? []), name])
      }
    }
    return taken
  }

  /**
   * Checks the settings of one wish by themselves, and how they fit to all others.
   *
   * @returns every problem, with its path.
   */
  check(wish: Wish): Planned | { problems: readonly Problem[] } {
    const checked = this.#check(wish)
    if (!('problems' in checked) || wish.path === '') return checked
    const problems = checked.problems.map(({ path, message }) => {
      const isStep = path === '' || path.startsWith('[')
      return { path: wish.path + (isStep ? path : `.${path}`), message }
    })
    return { problems }
  }

  #check({ kind, name, before, after }: Wish): Planned | { problems: readonly Problem[] } {
    if (!after) return { kind, name, before, after, isSame: false }
    // Nothing is known about settings without a name, and the schema refuses them.
    if (!isFields(after.raw) || name === '') {
      return checkValue(kind, after.raw, []) as { problems: Problem[] }
    }
    const { raw: restored, broken } = restoreHidden(after.raw, before?.raw)
    const { name: givenName = name } = restored
    if (givenName !== name) {
      broken.push({
        path: ['name'],
        message: `expected the name in the path (${JSON.stringify(name)}), or none, got {got}.`,
      })
    }
    const raw = { ...restored, name: givenName }
    broken.push(...(kind === 'source' ? this.#takenKeys(name, raw) : this.#unknownSources(raw)))
    const checked = checkValue(kind, raw, broken)
    if ('problems' in checked) return checked
    const { value } = checked
    if ('webhooks' in value) {
      const problems = refusedEndpointsOf(value, this.#managed.file.allowNetworks)
      if (problems.length > 0) return { problems }
    }
    const isSame =
      before !== undefined && isDeepStrictEqual(toRaw(kind, value), toRaw(kind, before.value))
    return { kind, name, before, after: { raw, value, generated: after.generated }, isSame }
  }

  #takenKeys(name: string, raw: Fields): BrokenRelation[] {
    const keys = writeKeysIn(raw)
    return keys.flatMap((key, index) => {
      const owner = typeof key === 'string' ? this.#ownerOf(key) : undefined
      if (owner === undefined || owner === name) return []
      const path = keys.length > 1 ? ['writeKey', index] : ['writeKey']
      const message = `is the same write key as that of the source ${JSON.stringify(owner)}. Change or remove one of the two.`
      return [{ path, message }]
    })
  }

  #ownerOf(writeKey: string): string | undefined {
    const owner = this.#managed.ownerOf(writeKey)
    return owner === undefined || this.#sources.has(owner) ? this.#writeKeys.get(writeKey) : owner
  }

  #unknownSources(raw: Fields): BrokenRelation[] {
    const has = (name: string) => this.#sources.get(name) ?? this.#managed.hasSource(name)
    // The names are only needed for a message, and there may be thousands of them.
    const given = raw['sources']
    const isKnown = Array.isArray(given) && given.every((one) => has(String(one)))
    return isKnown ? [] : checkSourcesOf([], raw, (this.#names ??= this.#sourceNames()), { has })
  }

  #sourceNames(): string[] {
    const present = this.#managed.settings().sources.map(({ name }) => name)
    const names = new Set([...present, ...this.#sources.keys()])
    return Array.from(names).filter((name) => this.#sources.get(name) ?? true)
  }
}

function checkValue(kind: Kind, raw: unknown, broken: readonly BrokenRelation[]) {
  return kind === 'source' ? checkSource(raw, broken) : checkDestination(raw, broken)
}

function writeKeysIn(raw: unknown): unknown[] {
  return isFields(raw) ? [raw['writeKey']].flat() : []
}
