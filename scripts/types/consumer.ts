// What applications write. It compiles under every version of TypeScript that check-types.js installs, as an ES module
// and as CommonJS, with the library's declarations checked too.
import {
  Analytics,
  HooklineError,
  RejectedError,
  type AnalyticsClient,
  type AnalyticsOptions,
  type AnyPlan,
  type Fetch,
  type FetchInit,
  type DeliveryOutcome,
  type FlushResult,
  type PlanOf,
  type Stats,
  type WireMessage,
} from 'hookline'
import type { ReceiverOptions } from 'hookline/fetch'
import { createTestAnalytics, type TestAnalytics } from 'hookline/testing'

export interface Plan {
  'Order Completed': { total: number; readonly tags?: readonly string[] }
  'Signed Out': Record<string, never>
}

interface Address {
  readonly city: string
}

interface User {
  readonly name: string
  readonly address?: Address
  readonly tags: readonly string[]
}

export const client: Analytics<Plan> = new Analytics<Plan>('k', { disabled: true })

/** Interfaces, readonly objects and records of unknown values are plain objects. */
export function fields(user: User, loose: Record<string, unknown>, frozen: Readonly<User>): void {
  client.identify({ userId: 'u', traits: user })
  client.identify({ userId: 'u', traits: loose })
  client.identify({ userId: 'u', traits: frozen, context: loose })
  client.group({ userId: 'u', groupId: 'g', traits: Object.freeze({ a: [1] as const }) })
  client.page({ userId: 'u', properties: user })
  client.page({ userId: 'u', traits: loose })
  client.track({ userId: 'u', event: 'Order Completed', properties: { total: 1, tags: ['a'] } })
  client.track({ userId: 'u', event: 'Signed Out' })
  const anything: AnalyticsClient = createTestAnalytics().analytics
  anything.track({ userId: 'u', event: loose['event'] as string, properties: loose })
  // @ts-expect-error: an array is no plain object
  client.identify({ userId: 'u', traits: user.tags })
  // @ts-expect-error: no such event
  client.track({ userId: 'u', event: 'Order completed', properties: { total: 1 } })
  // @ts-expect-error: total is missing
  client.track({ userId: 'u', event: 'Order Completed', properties: {} })
}

/** A function that takes a client names its plan; one that tracks nothing takes any client. */
export function parameters(): void {
  const takesPlan = (analytics: AnalyticsClient<Plan>): void => {
    analytics.page({ userId: 'u' })
  }
  const takesClass = (analytics: Analytics<Plan>): void => {
    takesPlan(analytics)
  }
  const takesNoPlan = (analytics: AnalyticsClient): void => {
    analytics.track({ userId: 'u', event: 'Anything' })
  }
  const takesAnyPlan = <P extends PlanOf<P>>(analytics: AnalyticsClient<P>): void => {
    analytics.page({ userId: 'u' })
  }
  const identifies = (analytics: Pick<AnalyticsClient, 'identify' | 'flush'>): void => {
    analytics.identify({ userId: 'u' })
  }
  const unplanned: Analytics = createTestAnalytics().analytics
  takesPlan(client)
  takesClass(client)
  takesNoPlan(unplanned)
  takesAnyPlan(client)
  takesAnyPlan(unplanned)
  identifies(client)
  const wider: AnalyticsClient<Plan & { More: { a: number } }> = createTestAnalytics<
    Plan & { More: { a: number } }
  >().analytics
  takesAnyPlan(wider)
  const interfaceOnly: AnalyticsClient<Plan> = client
  const unplannedInterface: AnalyticsClient = unplanned
  takesNoPlan(unplannedInterface)
  // @ts-expect-error: it would record events that its plan does not have
  takesNoPlan(interfaceOnly)
  // @ts-expect-error: it would record events that its plan does not have
  const lost: Analytics = client
  takesAnyPlan(lost)
}

/** A fake needs the public members and nothing else. */
export class FakeAnalytics<P extends PlanOf<P> = AnyPlan> implements AnalyticsClient<P> {
  readonly tracked: unknown[] = []
  calls = 0
  identify(): void {
    this.calls++
  }
  page(): void {
    this.calls++
  }
  screen(): void {
    this.calls++
  }
  group(): void {
    this.calls++
  }
  alias(): void {
    this.calls++
  }
  track(message: unknown): void {
    this.tracked.push(message)
  }
  deliver(): Promise<DeliveryOutcome> {
    return Promise.resolve({ delivered: true })
  }
  flush(): Promise<FlushResult> {
    return Promise.resolve({ delivered: this.tracked.length, failed: 0 })
  }
  close(): Promise<FlushResult> {
    return this.flush()
  }
  stats(): Stats {
    return { accepted: 0, delivered: 0, rejected: 0, dropped: 0, pending: 0, pendingBytes: 0 }
  }
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }
}

export function fakes(): void {
  const planned: AnalyticsClient<Plan> = new FakeAnalytics<Plan>()
  const unplanned: AnalyticsClient = new FakeAnalytics()
  const partial: Pick<AnalyticsClient<Plan>, 'track'> = { track: () => undefined }
  partial.track({ userId: 'u', event: 'Signed Out' })
  const testing: TestAnalytics<Plan> = createTestAnalytics<Plan>()
  for (const analytics of [planned, testing.analytics]) analytics.page({ userId: 'u' })
  unplanned.track({ userId: 'u', event: 'e' })
}

/** Absent and undefined are the same, with `exactOptionalPropertyTypes` too. */
export function optional(
  timeout: number | undefined,
  name: string | undefined,
): ReceiverOptions<[Request]> {
  const options: AnalyticsOptions = { flushAt: timeout, fetch: undefined, beforeSend: undefined }
  new Analytics('k', options)
  client.page({ userId: 'u', name, timestamp: undefined, messageId: name })
  void client.flush({ timeout })
  void client.close({ timeout })
  return { secret: name, maxBytes: timeout, onRefused: undefined }
}

export const hooks: AnalyticsOptions = {
  beforeSend: (message) => (message.userId ? message : null),
  onFailed: ({ messages, error }) => {
    const first: string | undefined = messages[0]?.json
    if (error instanceof RejectedError) console.error(error.status, first)
    else if (error instanceof HooklineError) console.error(error.code)
  },
}

export const asynchronous: AnalyticsOptions[] = [
  // @ts-expect-error: beforeSend is synchronous
  { beforeSend: async (message: WireMessage) => Promise.resolve(message) },
  // @ts-expect-error: beforeSend is synchronous
  { beforeSend: async () => Promise.resolve(null) },
  // @ts-expect-error: beforeSend is synchronous
  { beforeSend: (message: WireMessage): WireMessage | Promise<WireMessage> => message },
  {
    // @ts-expect-error: it forgot to return
    beforeSend: (message) => {
      delete message.userId
    },
  },
]

/** A fetch of one's own, with and without a name for what it gets. */
export const traced: Fetch = (url, init) => fetch(url, init)
export const named = async (url: string, init: FetchInit): Promise<Response> => {
  const bytes: Uint8Array = init.body
  console.log(bytes.byteLength)
  return fetch(url, init)
}
export const custom: AnalyticsOptions = { fetch: named }
// @ts-expect-error: it gives no promise
export const wrong: AnalyticsOptions = { fetch: () => new Response() }
