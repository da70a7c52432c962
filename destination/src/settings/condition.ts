import type { Call } from '../model/call.js'
import { matcher } from '../model/wildcard.js'
import type { Where } from './settings.js'

/** One field of a condition, which a call has to fulfil together with the others. */
export interface Condition {
  /** The name of the field, or `$and` or `$or`. */
  field: string
  isMet: (call: Call) => boolean
}

/** Tests a call, or a value in it. JSON has no `undefined`, so it stands for a field that is missing. */
type Test = (value: unknown) => boolean

/** One step of the path to a field. */
interface Step {
  name: string
  /** Whether it is the position of an element if it leads into a list. */
  isPosition: boolean
}

/** Compiles a condition from the settings, field by field, so that it can be said which field a call does not fulfil. */
export function conditionsOf(where: Where): Condition[] {
  return Object.entries(where).map(([field, given]) => ({ field, isMet: fieldTest(field, given) }))
}

function whereTest(where: Where): Test {
  return every(Object.entries(where).map(([field, given]) => fieldTest(field, given)))
}

function fieldTest(field: string, given: unknown): Test {
  if (field === '$and') return every((given as Where[]).map(whereTest))
  if (field === '$or') {
    const tests = (given as Where[]).map(whereTest)
    return (call) => tests.some((test) => test(call))
  }
  const path = field.split('.').map((name) => ({ name, isPosition: /^(0|[1-9]\d*)$/.test(name) }))
  return operatorsTest(path, typeof given === 'object' && given !== null ? given : { $eq: given })
}

/** Each operator looks at all values of the field by itself: one element of a list may fulfil one, and another element the next. */
function operatorsTest(path: readonly Step[], operators: object): Test {
  return every(
    Object.entries(operators).map(([operator, operand]: [string, unknown]) =>
      operatorTest(path, operator, operand),
    ),
  )
}

/** The negative operators are the opposite of the positive ones for every call, whatever it has at the path. */
function operatorTest(path: readonly Step[], operator: string, operand: unknown): Test {
  const some =
    (test: Test): Test =>
    (call) =>
      someAt(call, path, 0, test)
  switch (operator) {
    case '$eq':
      return some(oneOfTest([operand]))
    case '$ne':
      return not(some(oneOfTest([operand])))
    case '$in':
      return some(oneOfTest(operand as unknown[]))
    case '$nin':
      return not(some(oneOfTest(operand as unknown[])))
    case '$exists': {
      const exists = some((value) => value !== undefined)
      return operand === true ? exists : not(exists)
    }
    case '$like': {
      const matches = matcher(operand as string)
      return some((value) => typeof value === 'string' && matches(value))
    }
    case '$not':
      return not(operatorsTest(path, operand as object))
    default:
      return some(comparisonTest(operator, operand as number | string))
  }
}

/** Texts are compared with texts and numbers with numbers: everything else is neither above nor below. */
function comparisonTest(operator: string, operand: number | string): Test {
  const type = typeof operand
  switch (operator) {
    case '$gt':
      return (value) => typeof value === type && (value as typeof operand) > operand
    case '$gte':
      return (value) => typeof value === type && (value as typeof operand) >= operand
    case '$lt':
      return (value) => typeof value === type && (value as typeof operand) < operand
    case '$lte':
      return (value) => typeof value === type && (value as typeof operand) <= operand
    default:
      throw new Error(`never: the settings refuse the operator ${operator}`)
  }
}

/** A set, so that thousands of elements of a call's list cost the same with one value and with a thousand. */
function oneOfTest(list: readonly unknown[]): Test {
  const [only = null] = list
  if (list.length === 1) return (value) => (value ?? null) === only
  const values = new Set(list)
  return (value) => values.has(value ?? null)
}

/**
 * Whether one of the values at a path passes a test.
 *
 * A path leads through a list to each of its elements, or to one if the step is a position. At the end of the path, a list is a
 * value too. What has no such field has one missing value there: an object without it, a text, a number, and a list without
 * elements. Only the own properties of an object are fields of the call, and not what it inherits from JavaScript.
 */
function someAt(value: unknown, path: readonly Step[], depth: number, test: Test): boolean {
  const step = path[depth]
  if (Array.isArray(value)) return someIn(value, path, depth, test)
  if (step === undefined) return test(value)
  if (typeof value !== 'object' || value === null || !Object.hasOwn(value, step.name)) {
    return test(undefined)
  }
  return someAt((value as Record<string, unknown>)[step.name], path, depth + 1, test)
}

function someIn(
  list: readonly unknown[],
  path: readonly Step[],
  depth: number,
  test: Test,
): boolean {
  const step = path[depth]
  if (step?.isPosition) return someAt(list[Number(step.name)], path, depth + 1, test)
  if (step === undefined ? test(list) : list.length === 0 && test(undefined)) return true
  return list.some((element) => someAt(element, path, depth, test))
}

function every(tests: readonly Test[]): Test {
  const [only] = tests
  if (only && tests.length === 1) return only
  return (value) => tests.every((test) => test(value))
}

function not(test: Test): Test {
  return (value) => !test(value)
}
