import type { FilterRule } from '../model/answers.js'
import type { Call } from '../model/call.js'
import { finder } from '../model/wildcard.js'
import { conditionsOf } from '../settings/condition.js'
import type { CallFilter, EventRule } from '../settings/settings.js'

/** Why a call does not pass the filters of a destination. */
export interface Stop {
  rule: FilterRule
  /** In words, for the operator. It has no values of the call, because they may be personal data. */
  reason: string
}

/** Tests a call of a source. It returns `undefined` if the call passes. */
export type Filter = (source: string, call: Call) => Stop | undefined

/** Tests a call by one rule. */
type Test = (call: Call) => Stop | undefined

/** Compiles the filters of a destination. A call passes if it passes each of them. */
export function compileFilters(filters: readonly CallFilter[]): Filter {
  const compiled = filters.map((filter, index) => ({
    sources: filter.sources && new Set(filter.sources),
    tests: testsOf(filter, `filters[${index}]`),
  }))
  return (source, call) => {
    for (const { sources, tests } of compiled) {
      if (sources?.has(source) === false) continue
      for (const test of tests) {
        const stop = test(call)
        if (stop) return stop
      }
    }
    return undefined
  }
}

/** The tests of a filter, those that cost least first. All reasons are made once, and not for each call. */
function testsOf({ types, events, where }: CallFilter, path: string): Test[] {
  return [
    ...(types ? [testOfTypes(new Set(types), path)] : []),
    ...(events ? testsOfEvents(events, path) : []),
    ...(where ? conditionsOf(where) : []).map(({ field, isMet }): Test => {
      const stop = stopOf('where', `${field} does not match`, `${path}.where`)
      return (call) => (isMet(call) ? undefined : stop)
    }),
  ]
}

function testOfTypes(types: ReadonlySet<string>, path: string): Test {
  return ({ type }) =>
    types.has(type) ? undefined : stopOf('type', `the type ${type} is left out`, `${path}.types`)
}

function testsOfEvents({ allow, deny }: EventRule, path: string): Test[] {
  const tests: Test[] = []
  if (deny) {
    const find = finder(deny)
    tests.push(({ type, event = '' }) => {
      const pattern = type === 'track' ? find(event) : undefined
      return pattern === undefined
        ? undefined
        : stopOf('deny', `the event is denied by ${JSON.stringify(pattern)}`, `${path}.events.deny`)
    })
  }
  if (allow) {
    const find = finder(allow)
    const stop = stopOf('allow', 'the event is not allowed', `${path}.events.allow`)
    tests.push(({ type, event = '' }) =>
      type !== 'track' || find(event) !== undefined ? undefined : stop,
    )
  }
  return tests
}

function stopOf(rule: FilterRule, words: string, path: string): Stop {
  return { rule, reason: `filtered: ${words} (${path})` }
}
