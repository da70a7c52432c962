import { expect, test } from 'vitest'
import { mergePatch } from '../../src/manage/merge-patch.js'

// The examples of RFC 7396, Appendix A, whose target and patch are objects.
test.each([
  ['{"a":"b"}', '{"a":"c"}', '{"a":"c"}'],
  ['{"a":"b"}', '{"b":"c"}', '{"a":"b","b":"c"}'],
  ['{"a":"b"}', '{"a":null}', '{}'],
  ['{"a":"b","b":"c"}', '{"a":null}', '{"b":"c"}'],
  ['{"a":["b"]}', '{"a":"c"}', '{"a":"c"}'],
  ['{"a":"c"}', '{"a":["b"]}', '{"a":["b"]}'],
  ['{"a":{"b":"c"}}', '{"a":{"b":"d","c":null}}', '{"a":{"b":"d"}}'],
  ['{"a":[{"b":"c"}]}', '{"a":[1]}', '{"a":[1]}'],
  ['{"e":null}', '{"a":1}', '{"e":null,"a":1}'],
  ['[1,2]', '{"a":"b","c":null}', '{"a":"b"}'],
  ['{}', '{"a":{"bb":{"ccc":null}}}', '{"a":{"bb":{}}}'],
  ['{}', '{"__proto__":{"a":1}}', '{"__proto__":{"a":1}}'],
])('%s with the patch %s is %s', (target, patch, expected) => {
  const merged = mergePatch(JSON.parse(target), JSON.parse(patch) as Record<string, unknown>)
  expect(JSON.stringify(merged)).toBe(expected)
})
