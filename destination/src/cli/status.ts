import { printable } from '../observe/printable.js'
import type { DestinationStatus, EndpointStatus, Status } from '../model/answers.js'
import { addAdminOptions, findAdmin, type AdminOptions } from './admin-client.js'
import type { AddCommand } from './command.js'
import { pauseInWords } from './pause.js'
import { inWords, timeOf } from './shown-time.js'
import { table } from './table.js'

const EXAMPLES = `
If several processes share a store, what waits and what is dead is that of all of them. The calls of a source, and the circuit breaker,
the counts and the last failure of an endpoint are what the process that you ask has seen since its start.

Examples:
  $ hookline-destination status
  $ hookline-destination status --json | jq '.destinations[] | select(.dead > 0) | .name'
  $ watch hookline-destination status --url https://hooks.example.com --token "$ADMIN_TOKEN"`

export const addStatus: AddCommand = (program) => {
  const command = program
    .command('status')
    .description('show the sources, and the backlog and endpoints of each destination')
  addAdminOptions(command)
    .option('--json', 'print JSON')
    .addHelpText('after', EXAMPLES)
    .action(async (options: AdminOptions & { json?: true }) => {
      const { ask } = await findAdmin(options)
      const status = (await ask('/status')) as Status
      if (options.json) console.log(JSON.stringify(status, null, 2))
      else console.log(statusLines(status).map(printable).join('\n'))
    })
}

function statusLines(status: Status): string[] {
  const { version, startedAt, now, store, role, servers, sources, destinations } = status
  const { storeProblem } = status
  return [
    `hookline-destination ${version}, role ${role}, store ${store}, running for ${inWords(now - startedAt)}`,
    ...(storeProblem === undefined ? [] : [storeProblem]),
    '',
    ...serverLines(servers ?? []),
    ...table([
      ['SOURCE', 'ACCEPTED', 'REJECTED'],
      ...sources.map(({ name, accepted, rejected }) => [name, String(accepted), String(rejected)]),
    ]),
    '',
    ...table([
      ['DESTINATION', 'WAITING', 'SENDING', 'DEAD', 'OLDEST', 'FILTERED'],
      ...[...destinations, ...status.formerDestinations].map(countsOf),
    ]),
    '',
    ...table([
      ['ENDPOINT', 'DESTINATION', 'BREAKER', 'DELIVERED', 'FAILED', 'P50', 'P99'],
      ...destinations.flatMap(({ name, endpoints }) =>
        endpoints.map((endpoint) => endpointRow(name, endpoint)),
      ),
    ]),
    ...destinations.flatMap(pauseOf),
    ...destinations.flatMap(failuresOf),
  ]
}

function serverLines(servers: NonNullable<Status['servers']>): string[] {
  if (servers.length === 0) return []
  const rows = servers.map(({ name, error }) => [name, error ?? 'works'])
  return [...table([['SERVER', 'STATE'], ...rows]), '']
}

function countsOf(one: DestinationStatus | Status['formerDestinations'][number]): string[] {
  const { name, fresh, backlog, bulk, leased, dead, oldestMs } = one
  const note = noteOf(one)
  const oldest = oldestMs === 0 ? '-' : inWords(oldestMs)
  const filters = 'filters' in one ? one.filters : null
  const filtered =
    filters === null ? '-' : `${filters.stopped} of ${filters.stopped + filters.passed}`
  const counts = [fresh + backlog + bulk, leased, dead].map(String)
  return [`${name}${note}`, ...counts, oldest, filtered]
}

function noteOf(one: Parameters<typeof countsOf>[0]): string {
  if (!('enabled' in one)) return ' (not in the settings)'
  if (!one.enabled) return ' (disabled)'
  return one.paused === null ? '' : ' (paused)'
}

/** Why a destination is paused. */
function pauseOf({ name, paused }: DestinationStatus): string[] {
  return paused === null ? [] : ['', `${name} is ${pauseInWords(paused)}`]
}

function endpointRow(destination: string, endpoint: EndpointStatus): string[] {
  const { url, breaker, delivered, failed, p50Ms, p99Ms } = endpoint
  const ms = (value: number | null) => (value === null ? '-' : `${Math.round(value)} ms`)
  const counts = [String(delivered), String(failed)]
  return [url, destination, breaker?.state ?? '-', ...counts, ms(p50Ms), ms(p99Ms)]
}

/** The latest failure of each endpoint that has had one. */
function failuresOf({ endpoints }: DestinationStatus): string[] {
  return endpoints.flatMap(({ url, lastFailure }) => {
    if (lastFailure === null) return []
    const { at, code, status, error } = lastFailure
    const answer = status === null ? code : `${status} ${code}`
    return ['', `Last failure of ${url}: ${timeOf(at)}  ${answer}`, `  ${error ?? ''}`.trimEnd()]
  })
}
