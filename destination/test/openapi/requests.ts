// Requests that docs/openapi.yaml allows, made of its examples.
import { signGuest } from '../../src/operate/portal/token.js'
import { ADMIN_TOKEN, KEY } from '../run.js'
import type { Place } from './document.js'

export const BASIC = `Basic ${btoa(`${KEY}:`)}`
export const BEARER = `Bearer ${ADMIN_TOKEN}`

/** The tenant that the requests to the portal are made for. */
export const HOUSE = { name: 'house', portal: { editUrls: true } }

/** The token of a portal link for a tenant. */
export const linkOf = async (tenant: string): Promise<string> =>
  `Bearer ${await signGuest(ADMIN_TOKEN, { tenant, by: null, expiresAt: Date.now() + 3_600_000 })}`

const GUEST = await linkOf(HOUSE.name)

/** The credentials that an operation needs. */
export function credentialsOf({ operation }: Place): string | null {
  const [scheme] = operation.security.flatMap(Object.keys)
  return scheme === 'WriteKey'
    ? BASIC
    : scheme === 'AdminToken'
      ? BEARER
      : scheme === 'PortalToken'
        ? GUEST
        : null
}

/** The path of a request that is allowed. */
export const pathOf = ({ path }: Pick<Place, 'path'>): string =>
  path
    .replace(/(portal\/destinations)\/\{name\}/, '$1/own')
    .replace(/\/\{name\}\/(test|pause|resume)$/, '/crm/$1')
    .replace('{name}', 'vip')
    .replace('{id}', '1')
    .replace('{messageId}', 'm1')
    .replace(/^(\/v1\/admin\/destination)$/, '$1?name=crm')
    .replace(/^(\/v1\/portal\/destination)$/, '$1?name=own')
    .replace(/^(\/v1\/(?:admin|portal)\/messages)$/, '$1?messageId=m1')

/** The first example of the body. */
function exampleOf({ operation }: Place): { mediaType: string; body: string } | undefined {
  const [entry] = Object.entries(operation.requestBody?.content ?? {})
  const [example] = Object.values(entry?.[1].examples ?? {})
  if (!entry || !example) return undefined
  return { mediaType: entry[0], body: textOf(example.value) }
}

export const textOf = (value: unknown) =>
  typeof value === 'string' ? value : JSON.stringify(value)

/** A request that is allowed and does not fail by itself: lists say how many members they have. */
export function allowed(place: Place): { path: string; mediaType?: string; body?: string } {
  const counted = place.path.startsWith('/v1/audiences/') ? '?count=3' : ''
  return { path: pathOf(place) + counted, ...exampleOf(place) }
}
