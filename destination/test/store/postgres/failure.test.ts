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

test.each([
  ['42501', 'permission denied for table waiting', 'GRANT ALL ON ALL TABLES IN SCHEMA'],
  ['42501', 'permission denied for database "h"', 'GRANT CONNECT, CREATE ON DATABASE'],
  [
    'ERR_SSL_SSLV3_ALERT_CERTIFICATE_EXPIRED',
    '80FC66D53A7F0000:error:0A000415:SSL routines:ssl3_read_bytes:sslv3 alert certificate expired:SSL alert number 45',
    'refuses the client certificate',
  ],
  [
    'ERR_SSL_TLSV1_ALERT_UNKNOWN_CA',
    '80FC66D53A7F0000:error:0A000418:SSL routines:ssl3_read_bytes:tlsv1 alert unknown ca:SSL alert number 48',
    'ssl_ca_file of the server',
  ],
])('the error %s "%s" comes with its fix', (code, text, fix) => {
  const { message } = toStoreError(Object.assign(new Error(text), { code }), 'db:5432/h')
  expect(message).toContain(text)
  expect(message).toContain(fix)
})
