export { HooklineError } from './hookline-error.js'
