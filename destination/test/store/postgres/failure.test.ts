import { expect, test } from 'vitest'
import { toStoreError } from '../../../src/store/postgres/failure.js'

test.each([
  ['idle_session_timeout', '57P05', 'idle-session timeout'],
  ['idle_in_transaction_session_timeout', '25P03', 'idle-in-transaction timeout'],
  ['transaction_timeout', '25P04', 'transaction timeout'],
])('a connection that the server ends because of %s may work later', (setting, code, why) => {
  const error = Object.assign(new Error(`terminating connection due to ${why}`), { code })
  const failed = toStoreError(error, 'db:5432/h')
  expect(failed).toMatchObject({ code: 'failed', mayPass: true, isUnreachable: false })
  expect(failed.message).toMatch(
    new RegExp(`^store: db:5432/h: terminating .*: raise or remove ${setting} of the`),
  )
})
