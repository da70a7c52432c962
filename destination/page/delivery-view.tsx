import { useSignal } from '@preact/signals'
import type { ComponentChildren } from 'preact'
import { useEffect } from 'preact/hooks'
import { get, query } from './api.js'
import { difference, grouped, type SameAnswers } from './compare.js'
import { CopyButton } from './copy-button.js'
import { toCurl } from './curl.js'
import { clock, counted, exactly, seconds, shortUrl, span, zone } from './format.js'
import type {
  DeliveryList,
  ShownAttempt,
  ShownDelivery,
  ShownRequest,
} from '../src/model/answers.js'
import { JsonOrText } from './json-view.js'
import { usePoll } from './poll.js'
import { openReplay } from './replay.js'
import { Call, callInWords, listed, StatePill } from './rows.js'
import { now, toApiError } from './state.js'
import { outcome } from './words.js'

const REFRESH_MS = 2_000
const WINDOW_MS = 4 * 3_600_000

/** Shows everything that is known about one delivery. */
export function DeliveryView({ id }: { id: string }) {
  const trace = useSignal<ShownDelivery | undefined>(undefined)
  const problem = useSignal('')
  const read = async (abort?: AbortSignal) => {
    // A settled delivery changes only by a replay. The replay button reads without an abort signal.
    if (trace.value && isSettled(trace.value) && abort !== undefined) return
    try {
      trace.value = await get<ShownDelivery>(`/deliveries/${encodeURIComponent(id)}`, abort)
      problem.value = ''
    } catch (error) {
      if (!abort?.aborted) problem.value = toApiError(error).message
    }
  }
  usePoll(read, REFRESH_MS, [])
  if (problem.value !== '' && trace.value === undefined) {
    return (
      <>
        <p class="error" role="alert">
          {problem.value}
        </p>
        <p>
          <a href="#/deliveries">Show all deliveries</a>
        </p>
      </>
    )
  }
  return trace.value === undefined ? (
    <p aria-busy="true">Reading …</p>
  ) : (
    <TraceView trace={trace.value} onReplayed={() => void read()} />
  )
}

/** Links to the neighbours in the list that was shown last, or else among all deliveries. */
export function Neighbours({ id }: { id: number }) {
  const found = useSignal<{ newer?: number | undefined; older?: number | undefined }>({})
  useEffect(() => {
    let isOver = false
    void neighboursOf(id).then((neighbours) => {
      if (!isOver) found.value = neighbours
    })
    return () => {
      isOver = true
    }
  }, [id])
  const { newer, older } = found.value
  return (
    <nav class="neighbours" aria-label="Neighbours in the list">
      {newer !== undefined && (
        <a href={`#/deliveries/${newer}`} rel="prev">
          ← Newer
        </a>
      )}
      {older !== undefined && (
        <a href={`#/deliveries/${older}`} rel="next">
          Older →
        </a>
      )}
    </nav>
  )
}

/** Ids have no gaps except where something was deleted, so the next newer one is among these. */
const LOOK_AHEAD = 20

async function neighboursOf(id: number) {
  const place = listed.peek().indexOf(id)
  if (place >= 0) return { newer: listed.peek()[place - 1], older: listed.peek()[place + 1] }
  const read = (before: number, limit: number) =>
    get<DeliveryList>(`/deliveries${query({ before, limit })}`).catch(() => undefined)
  const [above, below] = await Promise.all([read(id + LOOK_AHEAD, LOOK_AHEAD), read(id, 1)])
  const newer = above?.deliveries.filter((one) => one.id > id).at(-1)?.id
  return { newer, older: below?.deliveries[0]?.id }
}

const isSettled = ({ state }: ShownDelivery) =>
  state === 'done' || state === 'dead' || state === 'skipped'

interface TraceProps {
  trace: ShownDelivery
  onReplayed: () => void
}

export function TraceView({ trace, onReplayed }: TraceProps) {
  const { id, type, event, user, destination, source, messageId, state, body, requests } = trace
  const replay = () => {
    openReplay(state === 'dead' ? { ids: [id] } : { ids: [id], force: true }, onReplayed)
  }
  const to = destination === '' ? 'no destination' : destination
  const groups = grouped(trace.attempts)
  return (
    <div class="delivery">
      <div class="card summary">
        <h2 class="break clamped" title={callInWords(type, event)}>
          <StatePill state={state} /> <Call type={type} event={event} /> to {to}
        </h2>
        <p class="lead">{inWords(trace, now.value)}</p>
        <Window trace={trace} now={now.value} />
        {(state === 'dead' || state === 'done') && (
          <div class="actions">
            <button type="button" class={state === 'dead' ? 'primary' : ''} onClick={replay}>
              Send again …
            </button>
          </div>
        )}
        <dl class="facts">
          <Fact name="Message">
            <a href={`#/messages/${encodeURIComponent(messageId)}`}>{messageId}</a>
            <CopyButton text={messageId} what="message id" />
          </Fact>
          <Fact name="User">
            <a href={`#/deliveries${query({ user })}`}>{user}</a>
          </Fact>
          {destination !== '' && (
            <Fact name="Destination">
              <a href={`#/destinations/${encodeURIComponent(destination)}`}>{destination}</a>
            </Fact>
          )}
          <Fact name="Source">{source}</Fact>
          <Fact name="Received">
            <Time at={trace.receivedAt} />
          </Fact>
          {trace.firstAttemptAt !== null && (
            <Fact name="First attempt">
              <Time at={trace.firstAttemptAt} />
              {`, ${span(trace.firstAttemptAt - trace.receivedAt)} later`}
            </Fact>
          )}
          <Fact name="Delivery">{String(id)}</Fact>
        </dl>
      </div>
      <section class="card" aria-label={`Attempts of delivery ${id}`}>
        <h3>Attempts</h3>
        {groups.length === 0 ? (
          <p class="empty">No attempt yet.</p>
        ) : (
          <ol class="attempts">
            {groups.map((group, i) => (
              <Answers group={group} key={i} />
            ))}
          </ol>
        )}
      </section>
      <Request body={body} requests={requests} isSent={trace.attempts.length > 0} />
    </div>
  )
}

function Fact({ name, children }: { name: string; children: ComponentChildren }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd class="break">{children}</dd>
    </div>
  )
}

/** A time in the browser's zone, which its title says exactly. */
function Time({ at }: { at: number }) {
  return (
    <time title={exactly(at)}>
      {clock(at, now.value)} {zone(at)}
    </time>
  )
}

/** How the delivery ended, or what happens next. */
function inWords(trace: ShownDelivery, now: number): string {
  const { state, reason, dueAt, attempts, receivedAt, hold } = trace
  const tries = new Set(attempts.map(({ attempt }) => attempt)).size
  const last = attempts.at(-1)
  if (state === 'done') {
    const took =
      last === undefined ? '' : ` ${span(last.at + last.ms - receivedAt)} after it was received`
    return `Delivered${took}, in ${counted(tries, 'attempt')}.`
  }
  if (state === 'dead') return `Given up after ${counted(tries, 'attempt')}: ${sentenceOf(reason)}`
  if (state === 'skipped') return `Not sent: ${sentenceOf(reason)}`
  if (state === 'leased') return 'It is being sent now.'
  if (hold === 'paused') return 'No attempt is made while the destination is paused.'
  if (hold === 'disabled') return 'No attempt is made while the destination is disabled.'
  if (hold === 'removed') return 'No attempt is made: the settings no longer have the destination.'
  if (dueAt === null || dueAt <= now) {
    return 'The next attempt is due. It starts as soon as the destination is healthy and has capacity.'
  }
  return `The next attempt is due in ${seconds(dueAt - now)}, at ${clock(dueAt, now)}.`
}

/** A reason can end with an error message, which already has its full stop. */
const sentenceOf = (reason: string | null) =>
  `${(reason ?? 'the reason is unknown').replace(/\.$/, '')}.`

/** How much of the 4-hour retry window is left. */
function Window({ trace, now }: { trace: ShownDelivery; now: number }) {
  const { deadlineAt } = trace
  if (isSettled(trace)) return null
  if (deadlineAt === null)
    return <p class="hint">The 4-hour retry window starts with the first attempt.</p>
  const left = Math.max(0, deadlineAt - now)
  const words =
    left === 0
      ? 'The 4-hour retry window is over. The next attempt is the last.'
      : `${seconds(left)} left of the 4-hour retry window, which ends at ${clock(deadlineAt, now)}.`
  return (
    <p>
      <progress
        max={WINDOW_MS}
        value={Math.min(WINDOW_MS, WINDOW_MS - left)}
        aria-label="Used part of the 4-hour retry window"
      />
      {words}
    </p>
  )
}

/** Attempts in a row with the same answer: one line with a count, and the answer once. */
function Answers({ group: { attempts, before } }: { group: SameAnswers }) {
  const first = attempts[0]
  const last = attempts.at(-1)
  if (first === undefined || last === undefined) return null
  const { code, status, error, response, url, headers } = last
  const isGood = code === 'delivered'
  const isOne = attempts.length === 1
  return (
    <li class={isGood ? 'good' : 'bad'}>
      <p class="attempt-line">
        <span class={`pill ${isGood ? 'state-done' : 'state-dead'}`}>
          {status === null ? outcome(code) : `${status} ${outcome(code)}`}
        </span>
        <span>
          {isOne ? (
            `attempt ${first.attempt}`
          ) : (
            <>
              <b>{attempts.length} ×</b> attempts {first.attempt} to {last.attempt}
            </>
          )}
        </span>
        <span class="hint">
          <Time at={first.at} />
          {!isOne && (
            <>
              {' '}
              to <Time at={last.at} />
            </>
          )}
          , {duration(attempts)}
        </span>
      </p>
      <p class="url" title={url}>
        {shortUrl(url)}
      </p>
      {error !== null && <p class="break">{error}</p>}
      {!isOne && <Each attempts={attempts} />}
      {before && <Difference before={before} after={first} />}
      {headers !== undefined && headers !== '' && <Headers headers={headers} />}
      {response !== '' && (
        <>
          <p class="hint">The endpoint answered:</p>
          <JsonOrText text={response} label="Start of the answer" />
        </>
      )}
    </li>
  )
}

function duration(attempts: readonly ShownAttempt[]): string {
  const all = attempts.map(({ ms }) => ms)
  const [least, most] = [Math.min(...all), Math.max(...all)]
  return span(least) === span(most) ? span(most) : `${span(least)} to ${span(most)}`
}

function Each({ attempts }: { attempts: readonly ShownAttempt[] }) {
  return (
    <details>
      <summary>Each of them</summary>
      <ul class="each">
        {attempts.map(({ attempt, at, ms }, i) => (
          <li key={i}>
            attempt {attempt}, <Time at={at} />, {span(ms)}
          </li>
        ))}
      </ul>
    </details>
  )
}

const SIGNS = { same: ' ', old: '−', new: '+' } as const

function Difference({ before, after }: { before: ShownAttempt; after: ShownAttempt }) {
  return (
    <details>
      <summary>What changed since attempt {before.attempt}</summary>
      <pre class="diff" tabIndex={0} aria-label={`Changes since attempt ${before.attempt}`}>
        {difference(before, after).map(({ kind, text }, i) => (
          <span class={`diff-${kind}`} key={i}>
            {SIGNS[kind]} {text}
            {'\n'}
          </span>
        ))}
      </pre>
    </details>
  )
}

function Headers({ headers }: { headers: string }) {
  return (
    <details>
      <summary>Headers of the answer</summary>
      <HeaderList
        headers={headers.split('\n').map((line) => {
          const end = line.indexOf(': ')
          return [line.slice(0, end), line.slice(end + 2)]
        })}
      />
    </details>
  )
}

export function HeaderList({ headers }: { headers: readonly (readonly [string, string])[] }) {
  return (
    <dl class="headers">
      {headers.map(([name, value], i) => (
        <div key={i}>
          <dt>{name}</dt>
          <dd class="break">{value === '…' ? <span title="not shown">…</span> : value}</dd>
        </div>
      ))}
    </dl>
  )
}

interface RequestProps {
  body: string
  requests: readonly ShownRequest[]
  isSent: boolean
}

function Request({ body, requests, isSent }: RequestProps) {
  if (body === '') return null
  const [first] = requests
  return (
    <div class="card">
      <div class="title">
        <h3>Request</h3>
        <CopyButton text={body} what="body" />
        {first && (
          <CopyButton text={toCurl(first, body)} what="request as curl" label="Copy as curl" />
        )}
      </div>
      {requests.map(({ url, headers }) => (
        <details key={url}>
          <summary>
            Headers to <span class="url">{shortUrl(url)}</span>
          </summary>
          <p class="hint">
            {isSent ? 'The latest attempt' : 'The first attempt'}, as the current settings make it.
            Values of static headers are not shown.
          </p>
          <HeaderList headers={headers} />
        </details>
      ))}
      <JsonOrText text={body} label="Body, indented" />
      <p class="hint">
        The copy has no indentation: it is exactly the text that is signed and sent.
      </p>
    </div>
  )
}
