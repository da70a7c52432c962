import { EndpointChart } from './chart.js'
import { clockMinute, count, counted, percent, seconds, shortUrl, span } from './format.js'
import type { Bucket, DestinationStatus, EndpointStatus, Status } from '../src/model/answers.js'
import { histories, news, status } from './state.js'
import { bucketsOf, BREAKERS, type Sentence } from './words.js'

/** Shows in sentences what is wrong, then the figures of each destination and its endpoints. */
export function OverviewView() {
  const state = status.value
  if (state === undefined) return null
  return (
    <>
      {isEmpty(state) ? <FirstCall /> : <News state={state} sentences={news.value} />}
      {state.destinations.map((destination) => (
        <Destination destination={destination} now={state.now} key={destination.name} />
      ))}
      {state.destinations.length === 0 && (
        <p class="card">
          The settings have no destination, so calls are not delivered. Add a destination to the
          settings.
        </p>
      )}
      {state.sources.length > 0 && <Sources state={state} />}
    </>
  )
}

function isEmpty({ sources, destinations, formerDestinations }: Status): boolean {
  return (
    formerDestinations.length === 0 &&
    sources.every(({ accepted, rejected }) => accepted + rejected === 0) &&
    destinations.every(({ fresh, backlog, leased, dead }) => fresh + backlog + leased + dead === 0)
  )
}

function FirstCall() {
  return (
    <section class="card" aria-labelledby="first">
      <h2 id="first">No call yet since the start</h2>
      <p>Send the first call from the folder that contains the settings:</p>
      <pre tabIndex={0}>hookline-destination send track --event 'Order Completed' --user u1</pre>
      <p>Or send it from any machine with a write key from the settings:</p>
      <pre tabIndex={0}>
        {`curl ${location.origin}/v1/track -u WRITE_KEY: \\\n  -d '{"userId":"u1","event":"Order Completed"}'`}
      </pre>
      <p>
        The call appears at once under <a href="#/live">Live</a>.
      </p>
    </section>
  )
}

function News({ state, sentences }: { state: Status; sentences: Sentence[] }) {
  const calls = state.sources.reduce((total, { accepted }) => total + accepted, 0)
  const isHealthy = sentences.every(({ weight }) => weight === 'note')
  return (
    <section aria-label="Current state">
      {isHealthy && (
        <p class="sentence healthy">
          Everything is healthy. {counted(calls, 'call')} accepted since{' '}
          {clockMinute(state.startedAt, state.now)}.
        </p>
      )}
      <ul class="news">
        {sentences.map(({ weight, subject, text, href }) => (
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
    </section>
  )
}

function Destination({ destination, now }: { destination: DestinationStatus; now: number }) {
  const { name, enabled, sources, fresh, backlog, leased, dead, oldestMs, endpoints } = destination
  const query = `destination=${encodeURIComponent(name)}`
  return (
    <section class="card" aria-labelledby={`to-${name}`}>
      <div class="title">
        <h2 id={`to-${name}`}>{name}</h2>
        <p class="hint">{enabled ? receives(sources) : 'disabled'}</p>
      </div>
      <dl class="figures">
        <Figure name="waiting" href={`#/deliveries?state=waiting&${query}`}>
          {count(fresh + backlog)}
        </Figure>
        <Figure name="being sent">{count(leased)}</Figure>
        <Figure name="dead letters" href={`#/deliveries?state=dead&${query}`}>
          {count(dead)}
        </Figure>
        <Figure name="age of the oldest">{oldestMs === 0 ? '–' : seconds(oldestMs)}</Figure>
      </dl>
      {endpoints.map((endpoint) => (
        <Endpoint
          endpoint={endpoint}
          buckets={bucketsOf(histories.value, name, endpoint.url)}
          now={now}
          key={endpoint.url}
        />
      ))}
    </section>
  )
}

function receives(sources: readonly string[]): string {
  return sources.length === 0
    ? 'gets no calls: its list of sources is empty'
    : `receives from ${sources.join(', ')}`
}

function Figure(props: { name: string; href?: string; children: string }) {
  return (
    <div>
      <dt>{props.name}</dt>
      <dd>
        {props.href === undefined ? props.children : <a href={props.href}>{props.children}</a>}
      </dd>
    </div>
  )
}

interface EndpointProps {
  endpoint: EndpointStatus
  buckets: Bucket[]
  now: number
}

function Endpoint({ endpoint, buckets, now }: EndpointProps) {
  const { url, breaker, p50Ms, p99Ms } = endpoint
  const delivered = buckets.reduce((total, bucket) => total + bucket.delivered, 0)
  const failed = buckets.reduce((total, bucket) => total + bucket.failed, 0)
  const sent = delivered + failed
  return (
    <article class="endpoint" aria-label={`Endpoint ${url}`}>
      <h3>
        {breaker && <span class={`pill breaker-${breaker.state}`}>{BREAKERS[breaker.state]}</span>}{' '}
        <span class="url" title={url}>
          {shortUrl(url)}
        </span>
      </h3>
      <p class="hint">
        {sent === 0
          ? 'No requests in the last hour'
          : `${percent(delivered / sent)} of ${counted(sent, 'request')} delivered in the last hour`}
        {p50Ms !== null && p99Ms !== null && `, p50 ${span(p50Ms)}, p99 ${span(p99Ms)}`}
        {breaker === null && '. Another process sends to this endpoint'}
        {breaker && breaker.inFlight > 0 && `, ${count(breaker.inFlight)} in flight`}
        {breaker && breaker.waiting > 0 && `, ${count(breaker.waiting)} waiting`}
      </p>
      <EndpointChart
        buckets={buckets}
        bucketMs={histories.value?.bucketMs ?? 60_000}
        now={now}
        name={url}
      />
    </article>
  )
}

function Sources({ state }: { state: Status }) {
  return (
    <section class="card" aria-labelledby="sources">
      <h2 id="sources">Sources</h2>
      <ul class="sources">
        {state.sources.map(({ name, accepted, rejected }) => (
          <li key={name}>
            <a href={`#/deliveries?source=${encodeURIComponent(name)}`}>{name}</a>{' '}
            {counted(accepted, 'call')} accepted{rejected > 0 && `, ${count(rejected)} refused`}{' '}
            since the start
          </li>
        ))}
      </ul>
    </section>
  )
}
