/** @module hookline-destination */

export { startDestination, type RunningDestination } from './destination.js'
export type { Log } from './observe/log.js'
export type { Environment } from './settings/environment.js'
export type { Problem } from './settings/problem.js'
export type { Role } from './settings/role.js'
export { readSettings } from './settings/read.js'
export type {
  Alerts,
  CallFilter,
  DeadLetterLimit,
  Destination,
  Endpoint,
  EventRule,
  RateLimit,
  Settings,
  Source,
  Where,
} from './settings/settings.js'
export { SettingsError, type SettingsErrorCode } from './settings/settings-error.js'
export type { Stats } from './model/delivery.js'
export type { StorePlace, StoreServer } from './store/kind.js'
export { StoreError, type StoreErrorCode } from './store/store-error.js'
