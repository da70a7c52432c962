import { formatDuration } from './duration.js'
import { formatListen } from './network.js'
import type { Alerts, Settings } from './settings.js'
import type { StorePlace } from '../store/kind.js'
import { withoutPassword, withoutQuery } from '../model/shown-url.js'

/**
 * Describes the settings without keys, secrets, tokens, values of headers and queries of URLs, so that anyone may see
 * the result.
 */
export function describeSettings(settings: Settings) {
  return {
    listen: formatListen(settings.listen),
    adminListen: settings.adminListen && formatListen(settings.adminListen),
    store: describeStore(settings.store),
    retention: formatDuration(settings.retentionMs),
    alerts: settings.alerts && describeAlerts(settings.alerts),
    admin: settings.adminToken !== undefined,
    operator: settings.operatorToken !== undefined,
    portal: settings.portal,
    settingsKeys: settings.settingsKeys?.length ?? 0,
    traceContext: settings.traceContext ?? false,
    allowNetworks: settings.allowNetworks,
    ca: settings.ca.length,
    sources: settings.sources.map(({ name }) => name),
    rateLimits: Object.fromEntries(
      settings.sources.flatMap(({ name, rateLimit }) => (rateLimit ? [[name, rateLimit]] : [])),
    ),
    destinations: settings.destinations.map(({ name, sources, enabled, ...destination }) => ({
      name,
      sources,
      enabled,
      ...(destination.filters && { filters: destination.filters }),
      signed: destination.sharedSecret !== undefined || destination.webhookSecrets !== undefined,
      webhooks: destination.webhooks.map(({ url, headers, concurrency, rateLimit }) => ({
        url: withoutQuery(url),
        headers: Object.keys(headers),
        concurrency,
        ...(rateLimit !== undefined && { rateLimit: { requestsPerSecond: rateLimit } }),
      })),
    })),
  }
}

function describeStore(store: StorePlace) {
  if (typeof store === 'string') return withoutPassword(store)
  return store.map(({ name, url }) => ({ name, url: withoutPassword(url) }))
}

function describeAlerts({ destination, afterMs, pauseAfterMs, deadLetters }: Alerts) {
  return {
    destination,
    after: afterMs.map(formatDuration),
    pauseAfter: pauseAfterMs !== undefined && formatDuration(pauseAfterMs),
    deadLetters: deadLetters !== undefined && {
      count: deadLetters.count,
      within: formatDuration(deadLetters.withinMs),
    },
  }
}
