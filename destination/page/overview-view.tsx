import type { ComponentChildren } from 'preact'
import { query } from './api.js'
import { ChartTable, LatencyChart, RequestsChart, Sparkline } from './chart.js'
import { clockMinute, compact, count, counted, percent, rate, shortUrl, span } from './format.js'
import type { Overview, OverviewRow } from '../src/model/answers.js'
import { HEALTHS, type Health } from '../src/model/health.js'
import { HISTORY_SPANS, type HistorySpan } from '../src/model/history.js'
import { SearchField } from './form.js'
import { HealthPill } from './health.js'
import { isPortal } from './portal.js'
import { go, route } from './route.js'
import { news, PAGE_ROWS, status } from './state.js'
import { healthInWords, type Sentence } from './words.js'

/** The most sentences about problems. The table has all of them. */
const MAX_NEWS = 4

const SPANS: Readonly<Record<HistorySpan, string>> = { '1h': '1 h', '24h': '24 h', '7d': '7 d' }

/** The totals, what is wrong in sentences, the charts of all requests, and the destinations. */
export function OverviewView() {
  const state = status.value
  if (state === undefined) return null
  if (isEmpty(state)) {
    return isPortal ? (
      <p class="card">Nothing was sent to you yet.</p>
    ) : (
      <FirstCall totals={state.totals} />
    )
  }
  return (
    <>
      <Totals state={state} />
      <News state={state} sentences={news.value} />
      {state.totals.destinations === 0 ? (
        <p class="card">
          {isPortal ? (
            'You have no destination yet.'
          ) : (
            <>
              There is no destination, so calls are not delivered.{' '}
              <a href="#/settings/destinations">Set one up</a>
            </>
          )}
        </p>
      ) : (
        <>
          <Charts state={state} />
          <Destinations state={state} />
        </>
      )}
      {state.sources.length > 0 && <Sources state={state} />}
    </>
  )
}

/** The query of the overview with some fields replaced. */
export function overviewHash(changes: Record<string, string | number | undefined>): string {
  const fields = Object.fromEntries(route.value.query)
  return `#/${query({ ...fields, ...changes })}`
}

/** Chooses the span of the charts. */
export function SpanChoice({ hashOf }: { hashOf: (span: HistorySpan) => string }) {
  const chosen = route.value.query.get('span') ?? '1h'
  return (
    <nav class="segments" aria-label="Time span">
      {HISTORY_SPANS.map((one) => (
        <a href={hashOf(one)} aria-current={one === chosen ? 'true' : undefined} key={one}>
          <span class="sr">last </span>
          {SPANS[one]}
        </a>
      ))}
    </nav>
  )
}

function isEmpty({ totals, formerDestinations }: Overview): boolean {
  return (
    formerDestinations.length === 0 &&
    totals.accepted + totals.rejected === 0 &&
    totals.delivered + totals.failed + totals.waiting + totals.dead === 0
  )
}

function FirstCall({ totals: { sources, destinations } }: Pick<Overview, 'totals'>) {
  if (sources === 0 || destinations === 0) {
    return (
      <section class="card narrow" aria-labelledby="first">
        <h2 id="first">
          {sources === 0 ? 'There is no source yet' : 'There is no destination yet'}
        </h2>
        <p>
          A source sends calls, and a destination gets them.{' '}
          <a href={`#/settings/${sources === 0 ? 'sources' : 'destinations'}`}>Set them up</a>
        </p>
      </section>
    )
  }
  return (
    <section class="card narrow" aria-labelledby="first">
      <h2 id="first">No call yet since the start</h2>
      <p>Send the first call from the folder that contains the settings:</p>
      <pre tabIndex={0}>hookline-destination send track --event 'Order Completed' --user u1</pre>
      {/* The page may be at an address of its own, which takes no calls. */}
      <p>
        Or send it from any machine that reaches the collector, which is at <code>listen</code> in
        the settings, with a write key:
      </p>
      <pre tabIndex={0}>
        {`curl COLLECTOR_URL/v1/track -u WRITE_KEY: \\\n  -d '{"userId":"u1","event":"Order Completed"}'`}
      </pre>
      <p>
        The call appears at once under <a href="#/live">Live</a>.
      </p>
    </section>
  )
}

function Totals({ state: { totals } }: { state: Overview }) {
  const { delivered, failed, callsPerSecond, p50Ms, p99Ms, waiting, dead, oldestMs } = totals
  const sent = delivered + failed
  const success = sent === 0 ? undefined : delivered / sent
  const tone = success === undefined ? '' : success < 0.5 ? 'bad' : success < 0.95 ? 'warn' : 'good'
  return (
    <dl class="totals">
      {!isPortal && (
        <Total name="Calls per second" note="accepted, last minute">
          {rate(callsPerSecond)}
        </Total>
      )}
      <Total name="Success" note={`of ${counted(sent, 'request')}`} tone={tone}>
        {success === undefined ? '–' : percent(success)}
      </Total>
      <Total name="Response time p99" note={p50Ms === null ? 'no requests' : `p50 ${span(p50Ms)}`}>
        {p99Ms === null ? '–' : span(p99Ms)}
      </Total>
      <Total
        name="Waiting"
        note={oldestMs === 0 ? 'nothing waits' : `oldest ${span(Math.max(1_000, oldestMs))}`}
        href="#/deliveries?state=waiting"
      >
        {compact(waiting)}
      </Total>
      <Total
        name="Dead letters"
        note={dead === 0 ? 'none' : 'sent again only by you'}
        href="#/deliveries?state=dead"
        tone={dead > 0 ? 'warn' : ''}
      >
        {compact(dead)}
      </Total>
    </dl>
  )
}

interface TotalProps {
  name: string
  note: string
  tone?: string
  href?: string
  children: string
}

function Total({ name, note, tone = '', href, children }: TotalProps) {
  return (
    <div class="total">
      <dt>{name}</dt>
      <dd>
        <span class={`value ${tone}`}>
          {href === undefined ? children : <a href={href}>{children}</a>}
        </span>
        <span class="note">{note}</span>
      </dd>
    </div>
  )
}

function News({ state, sentences }: { state: Overview; sentences: Sentence[] }) {
  const isHealthy = sentences.every(({ weight }) => weight === 'note')
  const shown = sentences.slice(0, MAX_NEWS)
  const more =
    sentences.length - shown.length + Math.max(0, state.troubled - state.destinations.length)
  return (
    <section class="state" aria-label="Current state">
      {isHealthy && (
        <p class="sentence healthy">
          Everything is healthy.
          {!isPortal &&
            ` ${counted(state.totals.accepted, 'call')} accepted since ${clockMinute(state.startedAt, state.now)}.`}
        </p>
      )}
      <ul class="news">
        {shown.map(({ weight, subject, text, href }) => (
          <li class={`sentence ${weight}`} key={subject + text}>
            <span>
              <strong>{subject}:</strong> {text}
            </span>
            {href !== undefined && (
              <a href={href} aria-label={`${subject}: show the deliveries`}>
                Show
              </a>
            )}
          </li>
        ))}
      </ul>
      {more > 0 && <p class="hint">{counted(more, 'more problem')}: see the table below.</p>}
    </section>
  )
}

function Charts({ state: { chart, now } }: { state: Overview }) {
  return (
    <section class="card" aria-label="All requests">
      <div class="charts">
        <RequestsChart label="All destinations" series={chart} now={now} />
        <LatencyChart label="All destinations" series={chart} now={now} />
      </div>
      <ChartTable series={chart} name="all destinations" />
    </section>
  )
}

/** The columns of the table: the name of the sort, the header, and whether a click sorts the largest first. */
const COLUMNS = [
  ['name', 'Destination', false],
  ['health', 'State', false],
  ['requests', 'Requests', true],
  ['success', 'Success', false],
  ['p99', 'p99', true],
  ['waiting', 'Waiting', true],
  ['dead', 'Dead', true],
] as const

function Destinations({ state }: { state: Overview }) {
  const { query: given } = route.value
  const sort = given.get('sort') ?? 'health'
  const isDescending = given.get('order') === 'desc'
  const { rows, found, totals } = state
  return (
    <section class="card table-card" aria-labelledby="destinations">
      <div class="title">
        <h2 id="destinations">Destinations</h2>
        <HealthChoice totals={totals.byHealth} all={totals.destinations} />
        <SearchRows />
      </div>
      <table class="destinations">
        <thead>
          <tr>
            {COLUMNS.map(([name, header, largestFirst]) => (
              <th
                scope="col"
                class={name}
                aria-sort={sort !== name ? 'none' : isDescending ? 'descending' : 'ascending'}
                key={name}
              >
                <SortButton
                  name={name}
                  isDescending={sort === name ? !isDescending : largestFirst}
                  sign={sort !== name ? '' : isDescending ? '↓' : '↑'}
                >
                  {header}
                </SortButton>
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <Row row={row} key={row.name} />
          ))}
        </tbody>
      </table>
      {rows.length === 0 && <p class="empty">No destination matches.</p>}
      <Pages found={found} />
    </section>
  )
}

function SortButton(props: {
  name: string
  isDescending: boolean
  sign: string
  children: ComponentChildren
}) {
  const sort = () => {
    const order = props.isDescending ? 'desc' : undefined
    go(overviewHash({ sort: props.name, order, offset: undefined }))
  }
  return (
    <button type="button" class="sort" onClick={sort}>
      {props.children}
      <span aria-hidden="true">{props.sign}</span>
    </button>
  )
}

function HealthChoice({ totals, all }: { totals: Record<Health, number>; all: number }) {
  const chosen = route.value.query.get('health')
  const present = HEALTHS.filter((one) => totals[one] > 0 || one === chosen)
  if (present.length < 2) return null
  const chip = (health: Health | undefined, words: string, many: number) => (
    <a
      class={`chip ${health === undefined ? '' : `health-${health}`}`}
      href={overviewHash({ health, offset: undefined })}
      aria-current={(chosen ?? undefined) === health ? 'true' : undefined}
      key={words}
    >
      {words} <b>{count(many)}</b>
    </a>
  )
  return (
    <nav class="chips" aria-label="State of the destinations">
      {chip(undefined, 'all', all)}
      {present.map((one) =>
        chip(one, one === 'unsteady' ? 'unsteady' : healthInWords(one, null), totals[one]),
      )}
    </nav>
  )
}

function SearchRows() {
  return (
    <SearchField
      label="Search destinations by name or URL"
      placeholder="Name or URL"
      value={route.peek().query.get('q') ?? ''}
      onSearch={(q) => {
        // The history of the browser needs no entry for each key.
        location.replace(overviewHash({ q, offset: undefined }))
      }}
    />
  )
}

function Row({ row }: { row: OverviewRow }) {
  const { name, health, failedShare, delivered, failed, p99Ms, waiting, dead, url, moreUrls } = row
  const sent = delivered + failed
  const of = `destination=${encodeURIComponent(name)}`
  const where = `${shortUrl(url)}${moreUrls > 0 ? ` and ${moreUrls} more` : ''}`
  return (
    <tr data-row class={`is-${health}`}>
      <th scope="row" class="name">
        <a href={`#/destinations/${encodeURIComponent(name)}`} title={name}>
          {name}
        </a>
        <span class="url" title={where}>
          {where}
        </span>
      </th>
      <td class="health">
        <HealthPill health={health} failedShare={failedShare} />
      </td>
      <td class="requests">
        <Sparkline {...row.spark} />
        <Labelled label="requests">{compact(sent)}</Labelled>
      </td>
      <td class="success">
        <Labelled label="success">{sent === 0 ? '–' : percent(delivered / sent)}</Labelled>
      </td>
      <td class="p99">
        <Labelled label="p99">{p99Ms === null ? '–' : span(p99Ms)}</Labelled>
      </td>
      <td class="waiting">
        <Labelled label="waiting">
          {waiting === 0 ? (
            '0'
          ) : (
            <a href={`#/deliveries?state=waiting&${of}`}>{compact(waiting)}</a>
          )}
        </Labelled>
      </td>
      <td class="dead">
        <Labelled label="dead">
          {dead === 0 ? '0' : <a href={`#/deliveries?state=dead&${of}`}>{compact(dead)}</a>}
        </Labelled>
      </td>
    </tr>
  )
}

/** On a phone the columns have no headers, so each number has its label. */
function Labelled({ label, children }: { label: string; children: ComponentChildren }) {
  return (
    <span class="labelled">
      <span class="label" aria-hidden="true">
        {label}
      </span>
      {children}
    </span>
  )
}

function Pages({ found }: { found: number }) {
  const offset = Number(route.value.query.get('offset') ?? 0)
  if (found <= PAGE_ROWS && offset === 0) return null
  const last = Math.min(found, offset + PAGE_ROWS)
  return (
    <nav class="pages" aria-label="Pages of destinations">
      <span>
        {count(offset + 1)} to {count(last)} of {count(found)}
      </span>
      {offset > 0 && (
        <a href={overviewHash({ offset: Math.max(0, offset - PAGE_ROWS) || undefined })}>
          Previous
        </a>
      )}
      {last < found && <a href={overviewHash({ offset: offset + PAGE_ROWS })}>Next</a>}
    </nav>
  )
}

function Sources({ state: { sources, totals } }: { state: Overview }) {
  const more = totals.sources - sources.length
  return (
    <section class="card" aria-labelledby="sources">
      <h2 id="sources">Sources</h2>
      <ul class="sources">
        {sources.map(({ name, accepted, rejected }) => (
          <li key={name}>
            <a href={`#/deliveries?source=${encodeURIComponent(name)}`}>{name}</a>
            <span>
              {counted(accepted, 'call')} accepted{rejected > 0 && `, ${count(rejected)} refused`}{' '}
              since the start
            </span>
          </li>
        ))}
      </ul>
      {more > 0 && (
        <p class="hint">
          {isPortal ? (
            `${counted(more, 'more source')}.`
          ) : (
            <a href="#/settings/sources">{counted(more, 'more source')}</a>
          )}
        </p>
      )}
    </section>
  )
}
