/** What the destination runs by: the checked settings, with their defaults and secrets filled in. */
export interface Settings {
  /** Where the collector listens. Port 0 takes a free one. */
  listen: {
    /** A name or an address of this machine. */
    host: string
    /** 0 to 65,535. */
    port: number
  }
  /** Where the routes for whoever runs it listen; without it they are where the collector is. */
  adminListen?: Settings['listen'] | undefined
  /** Who may send calls. Names and write keys are each unique. */
  sources: Source[]
  /** Where calls are forwarded to. Names are unique. */
  destinations: Destination[]
  /** The store's URL: `sqlite:` and a path, as it stood in the settings. */
  store: string
  /** The secret for requests that change something; `undefined` refuses all of them. */
  adminToken: string | undefined
  /** Networks, in CIDR notation, that are reached although they are private. */
  allowNetworks: string[]
  /** Certificates in PEM, trusted beside the system's own; empty for none. */
  ca: string[]
  /** Whether the `traceparent` of a request is sent on with its calls; not if it is left out. */
  traceContext?: boolean | undefined
  /** How long messages are kept, in ms: the log, and the time within which duplicates are known. */
  retentionMs: number
}

/** One sender of calls. */
export interface Source {
  /** How settings, log and store call it. */
  name: string
  /** What its clients authenticate with. */
  writeKey: string
  /** How much it may send to one process; without it, anything. */
  rateLimit?: RateLimit | undefined
}

/** How many calls a source may send. */
export interface RateLimit {
  /** On average. */
  callsPerSecond: number
  /** At once, after a while without any. */
  burst: number
}

/** One customer: the sources it wants, and the endpoints that get what they send. */
export interface Destination {
  /** How settings, log and store call it. */
  name: string
  /** Names of sources, each of which exists. */
  sources: string[]
  /** Whether anything is sent. */
  enabled: boolean
  /** Signs each request; `undefined` for none. */
  sharedSecret: string | undefined
  /** The second secret, while `sharedSecret` is being rotated. */
  otherSecret?: string | undefined
  /** Sign each request by Standard Webhooks too; several while one is being rotated. */
  webhookSecrets?: string[] | undefined
  /** One to five endpoints, with URLs that differ. */
  webhooks: Endpoint[]
}

/** One URL that gets the calls of a destination. */
export interface Endpoint {
  /** Full http or https URL. */
  url: string
  /** Static headers, ready to send: names and values have been checked. */
  headers: Record<string, string>
  /** Requests that may be under way at once, 1 to 1,000. */
  concurrency: number
}
