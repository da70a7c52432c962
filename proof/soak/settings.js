// The settings of a round, as its acts change them. A version is in use somewhere from when it is written until every
// process has confirmed the next one.
import { clock } from '../random/clock.js'
import { SOURCES } from './plan.js'

export const ADMIN_TOKEN = 'a-token-of-the-admin'
const IDLE_URL = 'http://127.0.0.1:1/'

/** The settings of a destination at the start, with its plan and the URLs of its endpoints. */
const firstOf = ({ name, sources, secret, endpoints }, origin, urls) => ({
  // A destination that was renamed has the endpoints of its former entry: both are of one origin.
  ...{ name, origin, sources, secrets: [secret], isEnabled: true, isPresent: true, headers: 0 },
  webhooks: endpoints.map(({ concurrency, rateLimit }, n) => ({
    ...{ url: urls[n], concurrency, rateLimit },
  })),
})

/** @param {string[][]} urls the endpoints of each destination */
export function createSettings(plans, urls) {
  const destinations = plans.map((plan, n) => firstOf(plan, n, urls[n]))
  const versions = []
  const write = () => {
    const present = structuredClone(destinations.filter(({ isPresent }) => isPresent))
    versions.push({ from: clock(), confirmedAt: Infinity, destinations: present })
  }
  write()
  return {
    destinations,
    versions,
    write,
    /** The file of a process, which says in its log which version it has read: by the name of a destination that is off. */
    file: (store, port) => fileOf(versions, store, port),
    marker: () => markerOf(versions),
    /** Versions that a process may have had between two times. */
    between: (from, to) =>
      versions.filter((version, n) => {
        const next = versions[n + 1]
        return version.from <= to && (next === undefined || next.confirmedAt >= from)
      }),
  }
}

const markerOf = (versions) => `version-${versions.length}`

function fileOf(versions, store, port) {
  const { destinations } = versions.at(-1)
  const off = {
    ...{ name: markerOf(versions), sources: [], enabled: false, webhooks: [{ url: IDLE_URL }] },
  }
  return {
    ...{ listen: `127.0.0.1:${port}`, store, adminToken: ADMIN_TOKEN },
    sources: SOURCES.map((name) => ({ name, writeKey: `wk_${name}` })),
    destinations: [...destinations.map(entryOf), off],
    allowNetworks: ['127.0.0.0/8'],
  }
}

const entryOf = ({ name, sources, isEnabled, secrets, headers, webhooks }) => ({
  ...{ name, sources, enabled: isEnabled },
  sharedSecret: secrets.length === 1 ? secrets[0] : secrets,
  webhooks: webhooks.map(({ url, concurrency, rateLimit }) => ({
    ...{ url: `${url}/${name}`, concurrency, headers: { 'x-team': String(headers) } },
    ...(rateLimit !== undefined && { rateLimit: { requestsPerSecond: rateLimit } }),
  })),
})
