import { CALL_TYPES, type Call } from '../model/call.js'
import { isFields } from '../model/fields.js'
import { conditionsOf } from './condition.js'
import { problemOfPattern, problemOfType } from './filters.js'
import type { Path, Refuse } from './problem.js'
import type { Where } from './settings.js'
import { suggest } from './suggest.js'

/** The fields of a call that are texts, also where the client has sent a number, and those that have fields of their own. */
const TEXTS = [
  ...['type', 'event', 'name', 'category'],
  ...['userId', 'anonymousId', 'groupId', 'previousId'],
]
const OBJECTS = ['properties', 'traits', 'context']

const OPERATORS = [
  ...['$eq', '$ne', '$gt', '$gte', '$lt', '$lte', '$in', '$nin'],
  ...['$exists', '$like', '$not'],
]
const GROUPS = ['$and', '$or']

/** How deep conditions may be nested. A person can't read more, and without a limit the stack could overflow. */
const MAX_DEPTH = 8

/** In characters. */
const MAX_FIELD_LENGTH = 200

/** The most elements of `$and`, `$or`, `$in` and `$nin`, and the most fields and operators of one object. */
const MAX_ELEMENTS = 1_000

/** Reads a condition. */
export function readWhere(given: unknown, refuse: Refuse): Where | undefined {
  checkWhere(given, [], refuse)
  return given as Where
}

function checkWhere(given: unknown, path: Path, refuse: Refuse): void {
  if (!isFields(given) || !isBounded(Object.keys(given))) {
    refuse(
      'expected an object of fields and conditions, such as { "properties.total": { "$gte": 100 } }, got {got}.',
      path,
    )
    return
  }
  if (depthOf(path) > MAX_DEPTH) {
    refuse(`expected conditions that are nested at most ${MAX_DEPTH} levels deep.`, path)
    return
  }
  for (const [field, condition] of Object.entries(given)) {
    const at = [...path, field]
    if (GROUPS.includes(field)) checkGroup(condition, at, refuse)
    else {
      const problem = problemOfField(field)
      if (problem !== undefined) refuse(problem, at)
      else if (field === 'type') checkType(condition, at, refuse)
      else checkCondition(field, condition, at, refuse)
    }
  }
}

function checkGroup(given: unknown, path: Path, refuse: Refuse): void {
  if (!Array.isArray(given) || !isBounded(given)) {
    refuse('expected a list of at least one object of fields and conditions, got {got}.', path)
    return
  }
  for (const [index, each] of given.entries()) checkWhere(each, [...path, index], refuse)
}

/** What is wrong with the name of a field; `undefined` if nothing is. */
function problemOfField(field: string): string | undefined {
  if (field.startsWith('$')) {
    const meant = suggest(field, GROUPS)
    return `there is no such operator here. ${meant === undefined ? 'Operators for a field are in the object behind its name; those for conditions are $and and $or.' : `Did you mean ${meant}?`}`
  }
  const [root = '', ...steps] = field.split('.')
  if (TEXTS.includes(root) && steps.length === 0) return undefined
  if (!OBJECTS.includes(root)) {
    const meant = suggest(root, [...TEXTS, ...OBJECTS])
    if (meant !== undefined)
      return `there is no such field. Did you mean ${[meant, ...steps].join('.')}?`
    return (
      `there is no such field. The fields are ${TEXTS.join(', ')}, and what is in ${OBJECTS.join(', ')}, ` +
      `such as properties.${field}.`
    )
  }
  if (steps.length === 0) return `expected a field in it, such as "${root}.plan".`
  if (field.length > MAX_FIELD_LENGTH || steps.includes('') || /\p{Cc}/u.test(field)) {
    return (
      `expected names that are joined by dots, such as "${root}.plan", without control characters and ` +
      `with at most ${MAX_FIELD_LENGTH} characters.`
    )
  }
  return undefined
}

/** Refuses a condition that no type of call fulfils. */
function checkType(given: unknown, path: Path, refuse: Refuse): void {
  let problems = 0
  checkCondition('type', given, path, (problem, at) => {
    problems++
    refuse(problem, at)
  })
  if (problems > 0) return
  const [condition] = conditionsOf({ type: given })
  if (CALL_TYPES.some((type) => condition?.isMet({ type } as Call))) return
  refuse(
    `no call has such a type, so none would pass. The types are ${CALL_TYPES.join(', ')}.`,
    path,
  )
}

function checkCondition(field: string, given: unknown, path: Path, refuse: Refuse): void {
  if (!isFields(given)) {
    if (isScalar(given)) checkValue(field, given, path, refuse)
    else if (Array.isArray(given)) {
      refuse(
        'expected one value, or operators. For one of several values, write { "$in": […] }.',
        path,
      )
    } else refuse(NO_SCALAR, path)
    return
  }
  const operators = Object.entries(given)
  if (!isBounded(operators)) {
    refuse(`expected at least one operator (${OPERATORS.join(', ')}), got {got}.`, path)
    return
  }
  if (depthOf(path) > MAX_DEPTH) {
    refuse(`expected conditions that are nested at most ${MAX_DEPTH} levels deep.`, path)
    return
  }
  for (const [operator, operand] of operators) {
    checkOperator(field, operator, operand, [...path, operator], refuse)
  }
  refuseEmptyRange(given, path, refuse)
}

const NO_SCALAR = 'expected a text, a number, true, false or null, got {got}.'

function checkOperator(
  field: string,
  operator: string,
  given: unknown,
  path: Path,
  refuse: Refuse,
): void {
  switch (operator) {
    case '$eq':
    case '$ne':
      checkValue(field, given, path, refuse)
      return
    case '$gt':
    case '$gte':
    case '$lt':
    case '$lte':
      checkBound(field, given, path, refuse)
      return
    case '$in':
    case '$nin':
      if (!Array.isArray(given) || !isBounded(given)) {
        refuse(
          `expected a list of 1 to ${MAX_ELEMENTS.toLocaleString('en')} values, got {got}.`,
          path,
        )
      } else {
        for (const [index, each] of given.entries()) {
          checkValue(field, each, [...path, index], refuse)
        }
      }
      return
    case '$exists':
      if (typeof given !== 'boolean') refuse('expected true or false, got {got}.', path)
      return
    case '$like': {
      const problem = problemOfPattern(given)
      if (problem !== undefined) refuse(problem, path)
      return
    }
    case '$not':
      if (isFields(given)) checkCondition(field, given, path, refuse)
      else refuse('expected operators, such as { "$gt": 100 }, got {got}.', path)
      return
    default: {
      const meant = suggest(operator, OPERATORS)
      refuse(
        `there is no such operator. ${meant === undefined ? `The operators are ${OPERATORS.join(', ')}.` : `Did you mean ${meant}?`}`,
        path,
      )
    }
  }
}

function checkValue(field: string, given: unknown, path: Path, refuse: Refuse): void {
  const problem = problemOfValue(field, given)
  if (problem !== undefined) refuse(problem, path)
}

function problemOfValue(field: string, given: unknown): string | undefined {
  if (!isScalar(given)) return NO_SCALAR
  if (field === 'type') return problemOfType(given)
  if (given === null || !TEXTS.includes(field)) return undefined
  if (given === '') return `an empty ${field} counts as left out. For calls without it, write null.`
  return typeof given === 'string' ? undefined : noText(field)
}

function noText(field: string): string {
  // Only an id may be sent as a number. A call whose event, name or category is one is refused.
  const sent = field.endsWith('Id') ? ', also if a number was sent' : ''
  return `expected a text in quotes, got {got}. The ${field} of a call is always a text${sent}.`
}

function checkBound(field: string, given: unknown, path: Path, refuse: Refuse): void {
  if (TEXTS.includes(field)) {
    if (typeof given !== 'string') refuse(noText(field), path)
  } else if (typeof given === 'string' && given.trim() !== '' && Number.isFinite(Number(given))) {
    refuse(
      `expected a number without quotes, got {got}. A text is only compared with texts, letter by letter.`,
      path,
    )
  } else if (typeof given !== 'string' && !Number.isFinite(given)) {
    refuse('expected a number or a text, got {got}.', path)
  }
}

const NO_VALUE =
  'no single value is in this range. For two elements of a list, write two conditions in $and.'

/**
 * A lower bound above the upper one is a mistake, and so are a number and a text: only two elements of a list could fulfil one bound
 * each.
 */
function refuseEmptyRange(operators: Record<string, unknown>, path: Path, refuse: Refuse): void {
  for (const lower of ['$gt', '$gte']) {
    for (const upper of ['$lt', '$lte']) {
      const [from, to] = [operators[lower], operators[upper]]
      if (!isTextOrNumber(from) || !isTextOrNumber(to)) continue
      if (typeof from !== typeof to) {
        const expected = `expected a ${typeof from === 'string' ? 'text' : 'number'}`
        refuse(`${expected} as in ${lower}, got {got}: ${NO_VALUE}`, [...path, upper])
        continue
      }
      const isEmpty = lower + upper === '$gte$lte' ? from > to : from >= to
      if (isEmpty) refuse(`expected a value above that of ${lower}: ${NO_VALUE}`, [...path, upper])
    }
  }
}

function isTextOrNumber(given: unknown): given is number | string {
  return typeof given === 'number' || typeof given === 'string'
}

/** How many objects of conditions a path leads through. */
function depthOf(path: Path): number {
  return path.filter((step) => GROUPS.includes(String(step)) || step === '$not').length
}

function isScalar(given: unknown): boolean {
  return (
    given === null ||
    typeof given === 'string' ||
    typeof given === 'boolean' ||
    Number.isFinite(given)
  )
}

function isBounded(list: readonly unknown[]): boolean {
  return list.length > 0 && list.length <= MAX_ELEMENTS
}
