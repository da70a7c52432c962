/** @module hookline/webhook */

export { HooklineError } from '../hookline-error.js'
export type * from './events.js'
export type { Answer, ReceiverOptions } from './receive.js'
export type { WebhookBody, WebhookSecret, WebhookSignature } from './rule.js'
export { parseWebhook, signWebhook, verifyWebhook } from './signature.js'
export { WebhookVerificationError, type WebhookErrorCode } from './verification-error.js'
