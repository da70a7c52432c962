/** @module hookline */

export { Analytics } from './analytics.js'
export {
  ClosedError,
  DroppedError,
  MessageTooLargeError,
  OptionError,
  RejectedError,
  RetriesExhaustedError,
  SpoolError,
  ValidationError,
} from './errors.js'
export type { DropReason, SpoolCode } from './errors.js'
export type { Logger } from './log.js'
export type {
  AnalyticsOptions,
  Fetch,
  FetchInit,
  FetchResponse,
  HttpAgent,
  SpoolOptions,
} from './options.js'
export type {
  AliasMessage,
  AnalyticsClient,
  AnyPlan,
  Callback,
  DeliveredReport,
  DeliveryOutcome,
  FailedReport,
  Fields,
  FlushResult,
  GroupMessage,
  IdentifyMessage,
  Identity,
  Integrations,
  LostMessage,
  MessageOptions,
  MessageType,
  OtherMessages,
  PageMessage,
  PlanOf,
  Stats,
  TrackMessage,
  WireMessage,
} from './types.js'
export * from './webhook/index.js'
