import { useSignal } from '@preact/signals'
import { get, query } from './api.js'
import { ChartTable, LatencyChart, RequestsChart } from './chart.js'
import { DeadGroups } from './dead-groups.js'
import { count, counted, percent, seconds, shortUrl, span } from './format.js'
import type { DestinationDetails, EndpointStatus, Series } from '../src/model/answers.js'
import type { Health } from '../src/model/health.js'
import { HealthPill } from './health.js'
import { LeaveDialog } from './leave-dialog.js'
import { SpanChoice } from './overview-view.js'
import { PauseCard } from './pause-card.js'
import { usePoll } from './poll.js'
import { isPortal } from './portal.js'
import { PortalCard } from './portal-card.js'
import { route } from './route.js'
import { auditHash, hashOf } from './setting-kinds.js'
import { toApiError } from './state.js'
import { TestCard } from './test-card.js'
import { sentences } from './words.js'

const REFRESH_MS = 3_000

/** One destination: its figures, its charts, its endpoints, and why its dead letters died. */
export function DestinationView({ name }: { name: string }) {
  const details = useSignal<DestinationDetails | undefined>(undefined)
  const problem = useSignal('')
  const chosen = route.value.query.get('span') ?? '1h'
  const read = async (abort?: AbortSignal) => {
    try {
      details.value = await get<DestinationDetails>(
        `/destination${query({ name, span: chosen })}`,
        abort,
      )
      problem.value = ''
    } catch (error) {
      if (abort?.aborted) return
      const { code, message } = toApiError(error)
      problem.value = message
      // It was deleted meanwhile.
      if (code === 'unknown_destination') details.value = undefined
    }
  }
  usePoll(read, REFRESH_MS, [name, chosen])
  const found = details.value
  if (found === undefined) {
    return problem.value === '' ? (
      <p aria-busy="true">Reading …</p>
    ) : (
      <>
        <p class="error" role="alert">
          {problem.value}
        </p>
        <p>
          <a href={`#/deliveries${query({ destination: name })}`}>Show its deliveries</a>
        </p>
      </>
    )
  }
  return <Details found={found} onChanged={read} />
}

function Details({
  found,
  onChanged,
}: {
  found: DestinationDetails
  onChanged: () => Promise<void>
}) {
  const { name, now, chart } = found
  const news = sentences({
    now,
    sources: [],
    formerDestinations: [],
    histories: found.histories,
    destinations: [found],
  })
  return (
    <>
      <LeaveDialog />
      <p class="under-title">
        <HealthPill health={found.health} failedShare={found.failedShare} />
        <span class="hint">{found.enabled ? receives(found.sources) : 'disabled'}</span>
        {!isPortal && (
          <>
            <a href={hashOf('destination', name)}>Settings</a>
            <a href={auditHash('destination', name)}>Changes</a>
          </>
        )}
      </p>
      <Figures found={found} />
      {news.length > 0 && (
        <ul class="news">
          {news.map(({ weight, text, href }) => (
            <li class={`sentence ${weight}`} key={text}>
              <span>{text}</span>
              {href !== undefined && <a href={href}>Show</a>}
            </li>
          ))}
        </ul>
      )}
      <section class="card" aria-label={`Requests to ${name}`}>
        <div class="charts">
          <RequestsChart label={name} series={chart} now={now} />
          <LatencyChart label={name} series={chart} now={now} />
        </div>
        <ChartTable series={chart} name={name} />
      </section>
      <section class="card" aria-labelledby="endpoints">
        <h2 id="endpoints">{found.endpoints.length === 1 ? 'Endpoint' : 'Endpoints'}</h2>
        {found.endpoints.map((endpoint, i) => (
          <Endpoint
            destination={name}
            endpoint={endpoint}
            health={found.healths[i] ?? 'idle'}
            failedShare={found.failedShares[i] ?? null}
            series={found.charts[i]}
            isAlone={found.endpoints.length === 1}
            isPaused={found.paused !== null}
            now={now}
            key={endpoint.url}
          />
        ))}
      </section>
      {found.dead > 0 && <DeadGroups destination={name} />}
      {isPortal ? <PortalCard name={name} /> : <PauseCard found={found} onChanged={onChanged} />}
      <TestCard name={name} enabled={found.enabled} />
    </>
  )
}

function receives(sources: readonly string[]): string {
  return sources.length === 0
    ? 'gets no calls: its list of sources is empty'
    : `receives from ${sources.join(', ')}`
}

function Figures({ found }: { found: DestinationDetails }) {
  const { name, fresh, backlog, bulk, leased, dead, oldestMs, chart, filters } = found
  const of = `destination=${encodeURIComponent(name)}`
  const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0)
  const delivered = sum(chart.delivered)
  const sent = delivered + sum(chart.failed)
  return (
    <dl class="totals">
      <Figure name="Success" note={`of ${counted(sent, 'request')}`}>
        {sent === 0 ? '–' : percent(delivered / sent)}
      </Figure>
      <Figure name="Being sent" note="now">
        {count(leased)}
      </Figure>
      <Figure
        name="Waiting"
        note={oldestMs === 0 ? 'nothing waits' : `oldest ${seconds(oldestMs)}`}
        href={`#/deliveries?state=waiting&${of}`}
      >
        {count(fresh + backlog + bulk)}
      </Figure>
      <Figure name="Dead letters" note="kept" href={`#/deliveries?state=dead&${of}`}>
        {count(dead)}
      </Figure>
      {filters !== null && (
        <Figure
          name="Filtered"
          note={`of ${counted(filters.passed + filters.stopped, 'call')}`}
          href={`#/deliveries?state=skipped&${of}`}
        >
          {count(filters.stopped)}
        </Figure>
      )}
      <Figure name="Deliveries" note="newest first" href={`#/deliveries?${of}`}>
        Show
      </Figure>
    </dl>
  )
}

function Figure(props: { name: string; note: string; href?: string; children: string }) {
  return (
    <div class="total">
      <dt>{props.name}</dt>
      <dd>
        <span class="value">
          {props.href === undefined ? props.children : <a href={props.href}>{props.children}</a>}
        </span>
        <span class="note">{props.note}</span>
      </dd>
    </div>
  )
}

interface EndpointProps {
  destination: string
  endpoint: EndpointStatus
  health: Health
  failedShare: number | null
  series: Series | undefined
  isAlone: boolean
  isPaused: boolean
  now: number
}

function Endpoint(props: EndpointProps) {
  const { destination, endpoint, health, failedShare, series, isAlone, isPaused, now } = props
  const { url, breaker, p50Ms, p99Ms, failuresInARow } = endpoint
  return (
    <article class="endpoint" aria-label={`Endpoint ${url}`}>
      <h3>
        <HealthPill health={health} failedShare={failedShare} />
        <a class="url" href={`#/deliveries${query({ destination, endpoint: url })}`} title={url}>
          {shortUrl(url)}
        </a>
      </h3>
      <p class="hint">
        {breaker === null ? (
          isPaused ? (
            'Nothing is sent while the destination is paused.'
          ) : (
            'Another process sends to this endpoint.'
          )
        ) : (
          <>
            {count(breaker.inFlight)} in flight of at most {count(breaker.allowed)},{' '}
            {count(breaker.waiting)} waiting
            {breaker.requestsPerSecond !== null &&
              `, ${count(breaker.requestsPerSecond)} per second`}
            {p50Ms !== null && p99Ms !== null && `, p50 ${span(p50Ms)}, p99 ${span(p99Ms)} now`}
            {failuresInARow !== null &&
              failuresInARow > 1 &&
              `, ${counted(failuresInARow, 'failure')} in a row`}
          </>
        )}
      </p>
      {!isAlone && series && (
        <>
          <div class="charts">
            <RequestsChart label={url} series={series} now={now} />
            <LatencyChart label={url} series={series} now={now} />
          </div>
          <ChartTable series={series} name={url} />
        </>
      )}
    </article>
  )
}

/** The choice of the span at the title of the view. */
export function DestinationSpan({ name }: { name: string }) {
  return <SpanChoice hashOf={(one) => `#/destinations/${encodeURIComponent(name)}?span=${one}`} />
}
