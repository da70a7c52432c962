import type { CallType } from '../model/call.js'
import type { StorePlace } from '../store/kind.js'

/** The checked settings of the destination, with defaults and environment variables filled in. */
export interface Settings {
  /** Where the collector listens. Port 0 takes a free port. */
  listen: {
    /** A host name or an IP address of this machine. */
    host: string
    /** 0 to 65,535. */
    port: number
  }
  /** Where the admin API, the page and `/metrics` listen; by default at `listen`, together with the collector. */
  adminListen?: Settings['listen'] | undefined
  /** The sources that may send calls. Their names and write keys are unique. */
  sources: Source[]
  /** The destinations that calls are forwarded to. Their names are unique. */
  destinations: Destination[]
  /** The tenants that sources and destinations may belong to; none by default. Their names are unique. */
  tenants?: Tenant[] | undefined
  /**
   * The keys of the sources, destinations and tenants that are kept in the store, in base64. The first one encrypts, and all of them
   * decrypt. Without a key, there are only those of the file.
   */
  settingsKeys?: string[] | undefined
  /** The URL of the store, as in the settings: `sqlite:` and a path, or a `postgres://` URL. A list of servers is one store. */
  store: StorePlace
  /** The token of the admin API; `undefined` refuses the requests that need it. */
  adminToken: string | undefined
  /** The token of an operator, who may read, replay, test, pause and resume, and change nothing else. */
  operatorToken?: string | undefined
  /** Where tenants open the portal; `undefined` for the address of the admin API, and in no frame. */
  portal?: Portal | undefined
  /** Private or reserved networks that requests may be sent to, in CIDR notation. */
  allowNetworks: string[]
  /** Certificates in PEM that are trusted in addition to the well-known ones. Empty by default. */
  ca: string[]
  /** Whether the headers `traceparent` and `tracestate` of a request are forwarded with its calls. Default: false. */
  traceContext?: boolean | undefined
  /** When the operator is told that something fails; `undefined` for never. */
  alerts?: Alerts | undefined
  /** How long messages and their attempts are kept, in ms. Duplicates are recognized within this time. */
  retentionMs: number
}

/** Where tenants open the portal, and in whose pages. */
export interface Portal {
  /** What links start with, such as `https://portal.example.com`; `undefined` for the address of the admin API. */
  url?: string | undefined
  /** The origins of the pages that may embed the portal in a frame. */
  frameAncestors: string[]
}

/** An application that sends calls. */
export interface Source {
  /** The name in the settings, the log and the store. */
  name: string
  /** The tenant that it belongs to; `undefined` if it is the operator's own. */
  tenant?: string | undefined
  /** The key that its clients authenticate with. */
  writeKey: string
  /** The second key during a rotation of `writeKey`. */
  otherWriteKey?: string | undefined
  /** The most calls that it may send to one process. Without it, there is no limit. */
  rateLimit?: RateLimit | undefined
}

/** How many calls a source may send. */
export interface RateLimit {
  /** The average rate. */
  callsPerSecond: number
  /**
   * The most calls that are accepted at once, after a time without calls. A single batch with more calls is accepted then
   * too, because not every client can split it, and later calls wait until the average rate holds again.
   */
  burst: number
}

/** A customer with sources and destinations of its own. Its destinations only take calls of its own sources. */
export interface Tenant {
  /** The name in the settings and the log. */
  name: string
  /** The name that people read, 1 to 100 characters. */
  title?: string | undefined
  /** How much of the destination it may use. Without it, there is no limit. */
  quotas?: Quotas | undefined
  /** What its portal allows. */
  portal: {
    /** Whether the tenant may change the URLs of its endpoints. */
    editUrls: boolean
  }
}

/** How much of one process a tenant may use. A quota that is left out is no limit. */
export interface Quotas {
  /** The average rate of the calls of all its sources together. */
  callsPerSecond?: number | undefined
  /** The most calls that are accepted at once, as in {@link RateLimit}. It is set if `callsPerSecond` is. */
  burst?: number | undefined
  /** No more calls are accepted while this many messages wait for its destinations. */
  waiting?: number | undefined
  /** The most requests that may be under way at once to all its destinations. */
  concurrency?: number | undefined
}

/** A receiver of calls: the sources whose calls it gets, and its endpoints. */
export interface Destination {
  /** The name in the settings, the log and the store. */
  name: string
  /** The tenant that it belongs to; `undefined` if it is the operator's own. */
  tenant?: string | undefined
  /** Names of sources. Each of them exists in `sources`, and belongs to the same tenant if there is one. Without any, it gets no calls, and what waits is sent. */
  sources: string[]
  /** Whether calls are forwarded to this destination. */
  enabled: boolean
  /** A call is forwarded if it passes each of them. Left out or empty, every call of the sources is. */
  filters?: CallFilter[] | undefined
  /** The secret that signs each request; `undefined` to send requests without `X-Signature`. */
  sharedSecret: string | undefined
  /** The second secret during a rotation of `sharedSecret`. */
  otherSecret?: string | undefined
  /** The secrets that sign each request by Standard Webhooks, in addition to `sharedSecret`. Two during a rotation. */
  webhookSecrets?: string[] | undefined
  /** One to five endpoints with different URLs. */
  webhooks: Endpoint[]
}

/**
 * Decides which calls a destination gets. A call passes if it passes each rule that is given. Messages that are not calls, which
 * are deletions and those of audiences, are not filtered.
 */
export interface CallFilter {
  /** The filter is only for the calls of these sources, and the others pass it. Left out, it is for all sources. */
  sources?: string[] | undefined
  /** Calls of other types do not pass. */
  types?: CallType[] | undefined
  /** A rule for `track` calls only. */
  events?: EventRule | undefined
  /** The condition that a call must fulfil, in the syntax of MongoDB. */
  where?: Where | undefined
}

/** Patterns for the names of events. In a pattern, `*` stands for any text. Upper and lower case differ. */
export interface EventRule {
  /** An event that no pattern matches does not pass. Left out, all events are allowed. */
  allow?: string[] | undefined
  /** An event that a pattern matches does not pass, also if it is allowed. */
  deny?: string[] | undefined
}

/** A checked condition: fields of a call with their conditions, and `$and` and `$or` with lists of such objects. */
export type Where = Record<string, unknown>

/** How many new dead letters of a destination are too many. */
export interface DeadLetterLimit {
  /** So many, or more, are told. */
  count: number
  /** The time in which they come, in ms. */
  withinMs: number
}

/** When the operator is told that something fails, and how. */
export interface Alerts {
  /** The name of the destination that gets the alerts; `undefined` if they are only logged. */
  destination?: string | undefined
  /** It is told that an endpoint fails after it has failed for these times, in ms, in ascending order. */
  afterMs: number[]
  /** A destination is paused after each of its endpoints has failed for this time, in ms; `undefined` for never. */
  pauseAfterMs?: number | undefined
  /** It is told that a destination has so many new dead letters within a time; `undefined` for never. */
  deadLetters?: DeadLetterLimit | undefined
}

/** One URL that the calls of a destination are sent to. */
export interface Endpoint {
  /** An absolute http or https URL. */
  url: string
  /** Static headers of each request. Their names and values have been checked. */
  headers: Record<string, string>
  /** The most requests that may be under way at once: 1 to 1,000. */
  concurrency: number
  /** The most requests per second, 0.1 to 10,000; left out for no limit. All workers together keep it. */
  rateLimit?: number | undefined
}
