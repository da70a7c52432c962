import { useSignal } from '@preact/signals'
import type { ComponentChildren } from 'preact'
import { get, query } from './api.js'
import { clock, counted, pretty, seconds, span } from './format.js'
import type { ShownAttempt, ShownTrace } from '../src/model/answers.js'
import { usePoll } from './poll.js'
import { openReplay } from './replay.js'
import { Call, StatePill } from './rows.js'
import { now, toApiError, toast } from './state.js'
import { outcome } from './words.js'

const REFRESH_MS = 2_000
const WINDOW_MS = 4 * 3_600_000

/** Shows everything that is known about one delivery. */
export function DeliveryView({ id }: { id: string }) {
  const trace = useSignal<ShownTrace | undefined>(undefined)
  const problem = useSignal('')
  const read = async (abort?: AbortSignal) => {
    // A settled delivery changes only by a replay. The replay button reads without an abort signal.
    if (trace.value && isSettled(trace.value) && abort !== undefined) return
    try {
      trace.value = await get<ShownTrace>(`/deliveries/${encodeURIComponent(id)}`, abort)
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
          Deliveries that are older than the retention are deleted.{' '}
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

const isSettled = ({ state }: ShownTrace) =>
  state === 'done' || state === 'dead' || state === 'skipped'

export function TraceView({ trace, onReplayed }: { trace: ShownTrace; onReplayed: () => void }) {
  const { id, type, event, user, destination, source, messageId, state, body } = trace
  const replay = () => {
    openReplay(state === 'dead' ? { ids: [id] } : { ids: [id], force: true }, onReplayed)
  }
  const to = destination === '' ? 'no destination' : destination
  return (
    <>
      <div class="card">
        <h2 class="break">
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
          <Fact name="Source">{source}</Fact>
          <Fact name="Received">{clock(trace.receivedAt, now.value)}</Fact>
          {trace.firstAttemptAt !== null && (
            <Fact name="First attempt">
              {clock(trace.firstAttemptAt, now.value)}
              {`, ${span(trace.firstAttemptAt - trace.receivedAt)} later`}
            </Fact>
          )}
          <Fact name="Delivery">{String(id)}</Fact>
        </dl>
      </div>
      <div class="card">
        <h3>Attempts</h3>
        {trace.attempts.length === 0 ? (
          <p class="empty">No attempt yet.</p>
        ) : (
          <ol class="attempts">
            {trace.attempts.map((attempt, i) => (
              <Attempt attempt={attempt} key={i} />
            ))}
          </ol>
        )}
      </div>
      <Body body={body} />
    </>
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

/** How the delivery ended, or what happens next. */
function inWords(trace: ShownTrace, now: number): string {
  const { state, reason, dueAt, attempts, receivedAt } = trace
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
  if (dueAt === null || dueAt <= now) {
    return 'The next attempt is due. It starts as soon as the destination is healthy and has capacity.'
  }
  return `The next attempt is due in ${seconds(dueAt - now)}, at ${clock(dueAt, now)}.`
}

/** A reason can end with an error message, which already has its full stop. */
const sentenceOf = (reason: string | null) =>
  `${(reason ?? 'the reason is unknown').replace(/\.$/, '')}.`

/** How much of the 4-hour retry window is left. */
function Window({ trace, now }: { trace: ShownTrace; now: number }) {
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

function Attempt({ attempt }: { attempt: ShownAttempt }) {
  const { at, url, code, status, ms, error, response } = attempt
  const isGood = code === 'delivered'
  return (
    <li>
      <p>
        <span class={`pill ${isGood ? 'state-done' : 'state-dead'}`}>
          {status === null ? outcome(code) : `${status} ${outcome(code)}`}
        </span>{' '}
        attempt {attempt.attempt} at {clock(at, now.peek())}, {span(ms)}
      </p>
      <p class="url">{url}</p>
      {error !== null && <p class="break">{error}</p>}
      {response !== '' && (
        <>
          <p class="hint">The endpoint answered:</p>
          <pre tabIndex={0} aria-label="Start of the answer">
            {response}
          </pre>
        </>
      )}
    </li>
  )
}

function Body({ body }: { body: string }) {
  if (body === '') return null
  return (
    <div class="card">
      <div class="title">
        <h3>Body</h3>
        <CopyButton text={body} what="body" />
      </div>
      <pre tabIndex={0} aria-label="Body, indented">
        {pretty(body)}
      </pre>
      <p class="hint">
        The copy has no indentation: it is exactly the text that is signed and sent.
      </p>
    </div>
  )
}

function CopyButton({ text, what }: { text: string; what: string }) {
  const copy = async () => {
    toast.value = ''
    try {
      await navigator.clipboard.writeText(text)
      toast.value = `Copied the ${what}.`
    } catch {
      // Browsers offer the clipboard only to secure contexts: https and localhost.
      toast.value = 'The browser does not allow this page to copy. Select the text and copy it.'
    }
  }
  return (
    <button type="button" class="small" onClick={() => void copy()} aria-label={`Copy the ${what}`}>
      Copy
    </button>
  )
}
