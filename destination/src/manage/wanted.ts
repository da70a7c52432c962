import { createHash } from 'node:crypto'
import { isFields, type Fields } from '../model/fields.js'
import { show } from '../http/refusal.js'
import { eachInSlices } from '../model/slices.js'
import type { Problem } from '../settings/problem.js'
import { KINDS, type Kind } from '../model/setting.js'
import type { Managed } from './managed.js'
import type { Wish } from './outlook.js'
import { withSecrets } from './secrets.js'

/** The lists that settings are wanted in. */
const LISTS = KINDS.map((kind) => `${kind}s` as const)

/**
 * Finds what has to become of what, so that the store has what is wanted. A list that is left out changes nothing.
 *
 * @param wanted - Lists in the form of the settings file, which are not checked yet.
 * @param prune - Whether what is not in a list is deleted.
 * @returns also the problems that no check of a single wish can find.
 */
export async function wishesFor(
  wanted: Fields,
  prune: boolean,
  managed: Managed,
): Promise<{ wishes: Wish[]; problems: Problem[] }> {
  const wishes: Wish[] = []
  const problems: Problem[] = Object.keys(wanted)
    .filter((field) => !LISTS.some((list) => list === field))
    .map((path) => ({
      path,
      message: `there is no such field. The fields here are ${LISTS.join(', ')}.`,
    }))
  for (const kind of KINDS) {
    const list = wanted[`${kind}s`]
    if (list === undefined) continue
    if (!Array.isArray(list)) {
      problems.push({
        path: `${kind}s`,
        message: `expected a list of ${kind}s, got ${show(list)}.`,
      })
      continue
    }
    const firsts = new Map<string, string>()
    await eachInSlices(list.entries(), ([index, given]: [number, unknown]) => {
      const path = `${kind}s[${index}]`
      const name = nameOf(given)
      const problem = problemOfName(kind, name, firsts.get(name), managed)
      if (problem !== undefined) {
        problems.push({ path: `${path}.name`, message: problem })
        return
      }
      if (name !== '') firsts.set(name, path)
      const before = managed.entry(kind, name)
      const after = isFields(given)
        ? withSecrets(kind, given, before?.raw)
        : { raw: given, generated: {} }
      wishes.push({ kind, name, path, before, after })
    })
    if (!prune) continue
    for (const [name, before] of managed.entries(kind)) {
      if (!firsts.has(name)) wishes.push({ kind, name, path: '', before, after: undefined })
    }
  }
  return { wishes, problems }
}

function nameOf(given: unknown): string {
  const name = isFields(given) ? given['name'] : undefined
  return typeof name === 'string' ? name : ''
}

/** @param first - The path of the one before that has this name. */
function problemOfName(
  kind: Kind,
  name: string,
  first: string | undefined,
  managed: Managed,
): string | undefined {
  if (first !== undefined) {
    return `is the same name as ${first}.name. Change or remove one of the two.`
  }
  if (!managed.inFile(kind, name)) return undefined
  return `is the name of a ${kind} in the settings file of the destination (${JSON.stringify(name)}). Change it there, or rename it here.`
}

/** Stands for a state of the settings in the store. It is the same in every process. */
export function revisionOf(versions: readonly number[]): string {
  const sorted = Float64Array.from(versions).sort()
  return createHash('sha256').update(sorted).digest('hex').slice(0, 32)
}
