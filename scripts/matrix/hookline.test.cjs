/* eslint-disable @typescript-eslint/no-require-imports -- it is there to require */
const { Analytics, parseWebhook } = require('hookline')
const { createTestAnalytics, signedRequest } = require('hookline/testing')
const { expect, jest: fake, test } = require('@jest/globals')

test('a call is recorded and delivered', async () => {
  const { analytics, messages } = createTestAnalytics()
  analytics.track({ userId: 'u1', event: 'Signed Up' })
  expect(await analytics.flush()).toEqual({ delivered: 1, failed: 0 })
  expect(messages.track).toMatchObject([{ userId: 'u1', event: 'Signed Up' }])
})

test('fake timers do not stop a test client', async () => {
  fake.useFakeTimers()
  const { analytics, messages, fail } = createTestAnalytics()
  fail(503, 'reset')
  analytics.track({ userId: 'u1', event: 'Signed Up' })
  expect(await analytics.flush()).toEqual({ delivered: 1, failed: 0 })
  analytics.track({ userId: 'u1', event: 'Signed In' })
  expect(await analytics.close()).toEqual({ delivered: 2, failed: 0 })
  expect(messages.track).toHaveLength(2)
  fake.useRealTimers()
})

test('a call reaches a collector', async () => {
  const analytics = new Analytics('matrix-write-key', { endpoint: process.env.ENDPOINT ?? '' })
  analytics.track({ userId: 'u1', event: 'There And Back' })
  expect(await analytics.close()).toEqual({ delivered: 1, failed: 0 })
})

test('a webhook is verified, and a forged one refused', () => {
  const track = { userId: 'u1', event: 'Signed Up', properties: {} }
  const { body, headers } = signedRequest('track', track, 's3cret')
  expect(parseWebhook('s3cret', body, headers['X-Signature'])).toMatchObject(track)
  expect(() => parseWebhook('guessed', body, headers['X-Signature'])).toThrow('X-Signature')
})
