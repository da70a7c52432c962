export { HooklineError } from './hookline-error.js'
export { signedRequest, type EventFields, type SignedRequest } from './webhook/signed-request.js'
