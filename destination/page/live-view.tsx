import { useSignal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import { clock, count, counted, exactly, seconds, shortUrl, span } from './format.js'
import {
  connection,
  isPaused,
  live,
  lostReason,
  missed,
  startLive,
  type LiveEvent,
} from './live.js'
import type { AttemptEvent, CallEvent } from '../src/model/answers.js'
import { Call, callInWords } from './rows.js'
import { now } from './state.js'
import { outcome } from './words.js'

type Kind = 'all' | 'calls' | 'attempts' | 'failures'

const KINDS: readonly (readonly [Kind, string])[] = [
  ['all', 'calls and attempts'],
  ['calls', 'calls only'],
  ['attempts', 'attempts only'],
  ['failures', 'failed attempts only'],
]

const CONNECTIONS = {
  connecting: 'Connecting …',
  open: 'Live: new events appear here at once.',
  lost: 'Not connected. The page tries to connect again.',
} as const

/** Shows calls and attempts as they happen. */
export function LiveView() {
  useEffect(startLive, [])
  const kind = useSignal<Kind>('all')
  const text = useSignal('')
  const shown = live.value.filter((event) => isWanted(event, kind.value, text.value.toLowerCase()))
  const pause = () => {
    isPaused.value = !isPaused.value
  }
  return (
    <>
      <div class="filter">
        <button type="button" onClick={pause}>
          {isPaused.value ? 'Continue' : 'Pause'}
        </button>
        <select
          aria-label="What to show"
          onChange={(event) => {
            kind.value = event.currentTarget.value as Kind
          }}
        >
          {KINDS.map(([one, words]) => (
            <option value={one} selected={kind.value === one} key={one}>
              {words}
            </option>
          ))}
        </select>
        <input
          aria-label="Only events that contain this text"
          placeholder="Contains this text"
          value={text.value}
          onInput={(event) => {
            text.value = event.currentTarget.value
          }}
        />
      </div>
      <p class="hint">
        {isPaused.value ? 'Paused.' : CONNECTIONS[connection.value]}
        {connection.value === 'lost' && ` ${lostReason.value}`}
        {missed.value > 0 && ` ${counted(missed.value, 'event')} not shown.`}
      </p>
      <div class="list">
        <ul class="rows">
          {shown.map((event) =>
            event.kind === 'gap' ? (
              <li key={event.key}>
                <p class="hint gap">
                  Not followed from {clock(event.from, now.peek())} to{' '}
                  {clock(event.until, now.peek())}: what happened then is in the lists of
                  deliveries.
                </p>
              </li>
            ) : (
              <li data-row key={event.key}>
                {event.kind === 'call' ? (
                  <CallRow call={event.call} />
                ) : (
                  <AttemptRow attempt={event.attempt} />
                )}
              </li>
            ),
          )}
        </ul>
      </div>
      {shown.length === 0 && (
        <p class="empty">
          {live.value.length === 0
            ? 'No events yet. Calls and delivery attempts appear here as they happen.'
            : `None of the last ${count(live.value.length)} events matches the filter.`}
        </p>
      )}
    </>
  )
}

function isWanted(event: LiveEvent, kind: Kind, text: string): boolean {
  if (event.kind === 'gap') return true
  if (kind === 'calls' && event.kind !== 'call') return false
  if (kind === 'attempts' && event.kind !== 'attempt') return false
  if (kind === 'failures' && (event.kind === 'call' || event.attempt.code === 'delivered')) {
    return false
  }
  if (text === '') return true
  const values: unknown[] = Object.values(event.kind === 'call' ? event.call : event.attempt)
  return values.some((value) => typeof value === 'string' && value.toLowerCase().includes(text))
}

function CallRow({ call: { at, source, type, event, user, messageId } }: { call: CallEvent }) {
  return (
    <a class="row" href={`#/messages/${encodeURIComponent(messageId)}`}>
      <time class="when" title={exactly(at)}>
        {clock(at, now.peek())}
      </time>
      <span class="pill state-call">call</span>
      <span class="what" title={callInWords(type, event)}>
        <Call type={type} event={event} />
      </span>
      <span class="who" title={user}>
        {user}
      </span>
      <span class="where">from {source}</span>
      <span class="answer">accepted</span>
    </a>
  )
}

function AttemptRow({ attempt }: { attempt: AttemptEvent }) {
  const { at, id, messageId, destination, endpoint, code, status, ms, next, nextInMs } = attempt
  const isGood = code === 'delivered'
  const answer = [
    `${outcome(code)}, ${span(ms)}`,
    ...(attempt.attempt > 1 ? [`attempt ${attempt.attempt}`] : []),
    ...(next === 'dead' ? ['given up'] : []),
    ...(next === 'backlog' && nextInMs !== null ? [`next attempt in ${seconds(nextInMs)}`] : []),
  ].join(', ')
  return (
    <a class="row" href={`#/deliveries/${id}`}>
      <time class="when" title={exactly(at)}>
        {clock(at, now.peek())}
      </time>
      <span class={`pill ${isGood ? 'state-done' : 'state-dead'}`}>{status ?? 'no answer'}</span>
      <span class="what" title={endpoint}>
        {shortUrl(endpoint)}
      </span>
      <span class="who" title={messageId}>
        {messageId}
      </span>
      <span class="where" title={destination}>
        to {destination}
      </span>
      <span class="answer" title={answer}>
        {answer}
      </span>
    </a>
  )
}
