import { InvalidArgumentError, type Command } from 'commander'
import type { ManagedSetting } from '../model/answers.js'
import type { Fields } from '../model/fields.js'
import type { Kind } from '../model/setting.js'
import { withoutQuery } from '../model/shown-url.js'
import { CommandError, EXIT, severalTimes, wholeNumber } from './command.js'
import { isRecord } from './record.js'

/** The options for single fields, of any kind. */
export interface FieldFlags {
  source?: string[]
  endpoint?: string[]
  rateLimit?: number | 'none'
  tenant?: string
  title?: string
}

/** One kind of what is kept in the store. A further kind needs only another one of these. */
export interface ManagedKind {
  name: Kind
  description: string
  /** What a creation does. */
  creates: string
  /** The fields with secrets, which can be rotated. The first one is if none is named. */
  secrets: readonly string[]
  /** Whether it can be disabled, and messages may wait for it. */
  isDestination: boolean
  /** Adds the options for single fields. */
  addFields: (command: Command) => Command
  /**
   * The fields that the options give. `null` removes a field.
   *
   * @param given - The fields of `--from`, which an option for a part of a field keeps.
   * @param before - The fields as they are shown; none at a creation.
   */
  fieldsOf: (options: FieldFlags, given: Fields, before: Fields) => Fields
  columns: readonly string[]
  row: (item: ManagedSetting) => string[]
  /** What a deletion costs, apart from messages that wait. */
  costOf: (name: string) => string
  examples: string
}

const OF_TENANT = 'the tenant that it belongs to'

/** The sources. */
export const SOURCE: ManagedKind = {
  name: 'source',
  description: 'show and change the sources, and their write keys',
  creates: 'create a source, and generate its write key',
  secrets: ['writeKey'],
  isDestination: false,
  addFields: (command) =>
    command
      .option(
        '--rate-limit <calls>',
        'the most calls per second that each process accepts, or none',
        readLimit(wholeNumber(1, 1_000_000)),
      )
      .option('--tenant <name>', OF_TENANT),
  fieldsOf: ({ rateLimit, tenant }, given) => ({
    ...(tenant !== undefined && { tenant }),
    ...(rateLimit !== undefined && {
      rateLimit:
        rateLimit === 'none'
          ? null
          : { ...(isRecord(given['rateLimit']) && given['rateLimit']), callsPerSecond: rateLimit },
    }),
  }),
  columns: ['NAME', 'KEPT IN', 'WRITE KEYS', 'RATE LIMIT'],
  row: ({ name, origin, secrets, settings: { rateLimit } }) => {
    const limit = rateLimit as { callsPerSecond: number } | undefined
    return [
      ...[name, origin, String(secrets['writeKey'])],
      limit ? `${limit.callsPerSecond} calls/s` : '-',
    ]
  },
  costOf: (name) => `Clients with a write key of ${name} will be refused.`,
  examples: `
Examples:
  $ hookline-destination sources create shop --rate-limit 100
  $ echo 'writeKey: \${SHOP_KEY}' | hookline-destination sources create shop --from -
  $ hookline-destination sources rotate shop     # both write keys are valid
  $ hookline-destination sources revoke shop     # only the new one is`,
}

/** The destinations. */
export const DESTINATION: ManagedKind = {
  name: 'destination',
  description: 'show and change the destinations, and their secrets',
  creates: 'create a destination, and generate its sharedSecret',
  secrets: ['sharedSecret', 'webhookSecret'],
  isDestination: true,
  addFields: (command) =>
    command
      .option('-s, --source <name>', 'a source whose calls it gets; several with one each', collect)
      .option(
        '-e, --endpoint <url>',
        'an endpoint; several with one each. One that stays keeps its headers and limits',
        collect,
      )
      .option(
        '--rate-limit <requests>',
        'the most requests per second to each endpoint, or none',
        readLimit(readRate),
      )
      .option('--tenant <name>', OF_TENANT),
  fieldsOf: ({ source, endpoint, rateLimit, tenant }, given, before) => ({
    ...(tenant !== undefined && { tenant }),
    ...(source && { sources: source }),
    ...((endpoint ?? rateLimit) !== undefined && {
      webhooks: webhooksOf(endpoint, rateLimit, given, before),
    }),
  }),
  columns: ['NAME', 'KEPT IN', 'ENABLED', 'SOURCES', 'ENDPOINTS'],
  row: ({ name, origin, settings }) => {
    const { enabled, sources, webhooks } = settings as {
      enabled: boolean
      sources: string[]
      webhooks: { url: string }[]
    }
    const urls = webhooks.map(({ url }) => url).join(' ')
    return [name, origin, enabled ? 'yes' : 'no', sources.join(' ') || '-', urls]
  },
  costOf: (name) => `${name} will get no more calls.`,
  examples: `
Examples:
  $ hookline-destination destinations create acme --source shop --endpoint https://acme.example.com/hook
  $ hookline-destination destinations update acme --rate-limit 50
  $ hookline-destination destinations update acme --from - <<< 'webhooks: [{ url: "https://acme.example.com/v2" }]'
  $ hookline-destination destinations delete acme --waiting discard`,
}

/** The tenants. */
export const TENANT: ManagedKind = {
  name: 'tenant',
  description: 'show and change the tenants',
  creates: 'create a tenant',
  secrets: [],
  isDestination: false,
  addFields: (command) => command.option('--title <text>', 'the name that people read'),
  fieldsOf: ({ title }) => (title === undefined ? {} : { title }),
  columns: ['NAME', 'KEPT IN', 'TITLE'],
  row: ({ name, origin, settings: { title } }) => [
    ...[name, origin],
    typeof title === 'string' ? title : '-',
  ],
  costOf: (name) => `All settings of ${name} will be lost.`,
  examples: `
Examples:
  $ hookline-destination tenants create acme --title "Acme Ltd."
  $ hookline-destination sources create acme-shop --tenant acme
  $ hookline-destination tenants list --json | jq -r '.items[].name'`,
}

function webhooksOf(
  urls: readonly string[] | undefined,
  rateLimit: number | 'none' | undefined,
  given: Fields,
  before: Fields,
): unknown {
  const endpoints = urls
    ? urls.map((url) => ({ ...(givenEndpoint(url, given) ?? storedEndpoint(url, before)), url }))
    : { ...before, ...given }['webhooks']
  // The destination says what is wrong with what is no list of endpoints.
  if (rateLimit === undefined || !Array.isArray(endpoints)) return endpoints
  const limit = rateLimit === 'none' ? undefined : { requestsPerSecond: rateLimit }
  return endpoints.map((endpoint: unknown) =>
    isRecord(endpoint) ? { ...endpoint, rateLimit: limit } : endpoint,
  )
}

function givenEndpoint(url: string, given: Fields): Fields | undefined {
  return endpointsIn(given).find((one) => one.url === url)
}

/** @throws CommandError if several endpoints may have the URL, because their queries are hidden. */
function storedEndpoint(url: string, before: Fields): Fields | undefined {
  const known = endpointsIn(before)
  const exact = known.filter((one) => one.url === url)
  const plain = withoutQuery(url)
  const same = exact.length > 0 ? exact : known.filter((one) => withoutQuery(one.url) === plain)
  if (same.length < 2) return same[0]
  const message =
    `--endpoint: several endpoints have the URL ${plain}, and their queries are hidden, so it is not clear which one stays. ` +
    'Give all endpoints with --from, each with its full URL. A header with the value ••• keeps its value.'
  throw new CommandError(EXIT.usage, message)
}

function endpointsIn({ webhooks }: Fields): ({ url: string } & Fields)[] {
  return Array.isArray(webhooks) ? webhooks.filter(isEndpoint) : []
}

function isEndpoint(value: unknown): value is { url: string } & Fields {
  return isRecord(value) && typeof value['url'] === 'string'
}

const collect = severalTimes((text, before: string[] | undefined): string[] => [
  ...(before ?? []),
  text,
])

function readLimit(read: (text: string) => number) {
  return (text: string): number | 'none' => (text === 'none' ? text : read(text))
}

function readRate(text: string): number {
  const rate = /^\d+(?:\.\d+)?$/.test(text) ? Number(text) : NaN
  if (rate >= 0.1 && rate <= 10_000) return rate
  throw new InvalidArgumentError('Expected a number from 0.1 to 10000, or none.')
}
