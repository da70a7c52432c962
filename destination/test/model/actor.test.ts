import { expect, test } from 'vitest'
import { decodeActor, encodeActor, isActorName } from '../../src/model/actor.js'

test.each(['ann@example.com', 'Zoë Müller', '李雷', 'می‌خواهم', '👩‍🚀', "UTF-8''ann", '100 %'])(
  'the name %j arrives in a header of ASCII as it is',
  (name) => {
    expect(isActorName(name)).toBe(true)
    expect(encodeActor(name)).toMatch(/^[ -~]+$/)
    expect(decodeActor(encodeActor(name))).toBe(name)
  },
)

test('names in ASCII are sent as before', () => {
  expect(encodeActor("Ann O'Neil")).toBe("Ann O'Neil")
  expect(encodeActor('100%25')).toBe('100%25')
})

test.each([
  '',
  'Zoë',
  "UTF-8''%E9",
  "utf-8''",
  ' ',
  "UTF-8''%20%E3%80%80",
  "UTF-8''a%00b",
  "UTF-8''%E2%80%AEnna",
  'x'.repeat(101),
  `UTF-8''${'%C3%AB'.repeat(101)}`,
])('the header %j has no name', (header) => {
  expect(decodeActor(header)).toBeUndefined()
})

test('each character that a name may have arrives', () => {
  for (let code = 0; code <= 0xffff; code++) {
    const name = String.fromCharCode(code)
    if (!isActorName(name)) continue
    const read = decodeActor(encodeActor(name))
    if (read !== name) expect.unreachable(`U+${code.toString(16)} arrived as ${read}`)
  }
  expect(isActorName(String.fromCharCode(0xd800))).toBe(false)
})
