import { describe, expect, test } from 'vitest'
import { causeOf } from '../../src/model/cause.js'

describe('the cause of a failed attempt', () => {
  test.each([
    ['{"error":{"code":"bad","message":"Unknown event type"}}', 'Unknown event type'],
    ['{"error":"invalid_user","error_description":"No such user"}', 'No such user'],
    ['{"errors":[{"detail":"Say \\"please\\""}]}', 'Say "please"'],
    ['{"message":"cut off here","rest":"no end', 'cut off here'],
    ['{"other":1}', '{"other":1}'],
    ['{"message":" ","reason":"No such user"}', 'No such user'],
    ['{"message":" "}', '{"message":" "}'],
    ['<html><title>502 Bad Gateway</title></html>', '502 Bad Gateway'],
    ['first line\nsecond line', 'first line'],
    ['No user 550e8400-e29b-41d4-a716-446655440000', 'No user …'],
    ['Request 10293 at 2026-01-02T03:04:05.678Z', 'Request … at …'],
    ['the decade of facade', 'the decade of facade'],
  ])('is the sentence that explains %s', (response, cause) => {
    expect(causeOf('The endpoint answered 422.', response)).toBe(cause)
  })

  test('is the error where the answer says nothing', () => {
    for (const response of ['', ' ', '<html><title> </title>', '<h1>\n</h1>']) {
      const cause = causeOf('The endpoint answered 503.', response)
      expect(cause).toBe('The endpoint answered 503.')
    }
    expect(causeOf(null, '')).toBe('')
  })

  test('is short', () => {
    expect(causeOf(null, 'a '.repeat(500))).toHaveLength(120)
  })
})
