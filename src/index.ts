export { HooklineError } from './hookline-error.js'
export * from './webhook.js'
