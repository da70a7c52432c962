/** @module hookline/testing */

export { createTestAnalytics } from './test-analytics.js'
export type {
  CapturedMessages,
  CapturedRequest,
  Fault,
  MessageOf,
  TestAnalytics,
} from './test-analytics.js'
export { signedRequest, type EventFields, type SignedRequest } from './webhook/signed-request.js'
