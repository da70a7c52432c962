import { expect, test } from 'vitest'
import { errorMessage } from '../../src/observe/error-message.js'

test.each<[unknown, string]>([
  [new Error('no room'), 'no room'],
  [new Error('no room', { cause: new Error('ENOSPC') }), 'no room: ENOSPC'],
  [
    new Error('There is no room.', { cause: new Error('ENOSPC') }),
    'There is no room. Cause: ENOSPC',
  ],
  [
    new Error('store: no room: buy some.', { cause: new Error('no room') }),
    'store: no room: buy some.',
  ],
  [new Error('a list: it is empty.', { cause: new Error('a list: ') }), 'a list: it is empty.'],
  [new Error('a', { cause: new Error('b', { cause: 'c' }) }), 'a: b: c'],
  [{ message: 'of another realm', code: 'SQLITE_FULL' }, 'of another realm'],
  [{ code: 'SQLITE_FULL' }, "{ code: 'SQLITE_FULL' }"],
  [{}, '{}'],
  ['text', 'text'],
  [undefined, 'undefined'],
])('an error is one line of text, whatever was thrown: %o', (error, text) => {
  expect(errorMessage(error)).toBe(text)
})
