import { useSignal } from '@preact/signals'
import { clockMinute, count, span } from './format.js'
import type { Bucket } from '../src/model/answers.js'
import { BREAKERS } from './words.js'

const WINDOW_MS = 3_600_000
/** Sizes are in units of the SVG, which the page stretches to its width. */
const BAR = 10
const RATE_HEIGHT = 56
const DELAY_HEIGHT = 32

interface Props {
  buckets: Bucket[]
  bucketMs: number
  now: number
  /** The URL of the endpoint. */
  name: string
}

/** The last hour of an endpoint, minute by minute: delivered and failed requests, their durations, the breaker's state. */
export function EndpointChart({ buckets, bucketMs, now, name }: Props) {
  const chosen = useSignal<Bucket | undefined>(undefined)
  const places = Math.round(WINDOW_MS / bucketMs)
  const first = Math.floor(now / bucketMs) * bucketMs - (places - 1) * bucketMs
  const placed = buckets
    .map((bucket) => ({ bucket, place: Math.round((bucket.at - first) / bucketMs) }))
    .filter(({ place }) => place >= 0 && place < places)
  const busy = placed.filter(({ bucket }) => isWorthARow(bucket))
  const most = Math.max(1, ...placed.map(({ bucket }) => bucket.delivered + bucket.failed))
  const slowest = Math.max(1, ...placed.map(({ bucket }) => bucket.p99Ms ?? 0))
  const width = places * BAR
  const choose = (event: PointerEvent) => {
    const { left, width } = (event.currentTarget as Element).getBoundingClientRect()
    const place = Math.floor(((event.clientX - left) / width) * places)
    chosen.value = placed.find((one) => one.place === place)?.bucket
  }
  const release = () => {
    chosen.value = undefined
  }

  return (
    <div class="chart">
      <div class="plot" onPointerMove={choose} onPointerLeave={release}>
        <svg viewBox={`0 0 ${width} ${RATE_HEIGHT}`} preserveAspectRatio="none" aria-hidden="true">
          {placed.map(({ bucket, place }) => (
            <RateBar bucket={bucket} x={place * BAR} most={most} key={place} />
          ))}
        </svg>
        <svg
          class="delays"
          viewBox={`0 0 ${width} ${DELAY_HEIGHT}`}
          preserveAspectRatio="none"
          aria-hidden="true"
        >
          {(['p99Ms', 'p50Ms'] as const).map((field) => (
            <path class={field} d={line(placed, field, slowest)} key={field} />
          ))}
        </svg>
        <svg
          class="breakers"
          viewBox={`0 0 ${width} 6`}
          preserveAspectRatio="none"
          aria-hidden="true"
        >
          {placed.map(({ bucket, place }) => (
            <rect
              class={`breaker-${bucket.breaker}`}
              x={place * BAR}
              y="0"
              width={BAR}
              height="6"
              key={place}
            />
          ))}
        </svg>
      </div>
      <p class="axis" aria-hidden="true">
        <span>{clockMinute(first, now)}</span>
        <span class="readout">
          {chosen.value === undefined ? (
            <>
              up to {count(most)} per minute, <i class="p99Ms" /> p99 up to {span(slowest)},{' '}
              <i class="p50Ms" /> p50
            </>
          ) : (
            inWords(chosen.value, now)
          )}
        </span>
        <span>now</span>
      </p>
      {busy.length > 0 && (
        <details>
          <summary>
            Minute by minute<span class="sr">, {name}</span>
          </summary>
          <ul class="minutes">
            {busy.reverse().map(({ bucket }) => (
              <li key={bucket.at}>{inWords(bucket, now)}</li>
            ))}
          </ul>
        </details>
      )}
    </div>
  )
}

function RateBar({ bucket, x, most }: { bucket: Bucket; x: number; most: number }) {
  const up = (value: number) => (value === 0 ? 0 : Math.max(2, (value / most) * (RATE_HEIGHT - 4)))
  const good = up(bucket.delivered)
  const bad = up(bucket.failed)
  return (
    <>
      <rect class="good" x={x + 1} y={RATE_HEIGHT - good} width={BAR - 2} height={good} />
      <rect class="bad" x={x + 1} y={RATE_HEIGHT - good - bad} width={BAR - 2} height={bad} />
    </>
  )
}

interface Placed {
  bucket: Bucket
  place: number
}

/** An SVG path through the centre of each minute that has a value. Minutes without a value leave a gap. */
function line(placed: readonly Placed[], field: 'p50Ms' | 'p99Ms', slowest: number): string {
  let before = -2
  return placed
    .flatMap(({ bucket, place }) => {
      const ms = bucket[field]
      if (ms === null) return []
      const x = (place + 0.5) * BAR
      const y = (DELAY_HEIGHT - 2 - (ms / slowest) * (DELAY_HEIGHT - 4)).toFixed(1)
      // A path with a single point is invisible: a minute without a left neighbour starts with a short stroke.
      const piece = before === place - 1 ? `L${x} ${y}` : `M${x - BAR / 2} ${y}L${x} ${y}`
      before = place
      return [piece]
    })
    .join('')
}

const isWorthARow = ({ delivered, failed, busy, breaker }: Bucket) =>
  delivered + failed + busy > 0 || breaker !== 'closed'

function inWords(
  { at, delivered, failed, busy, p50Ms, p99Ms, breaker }: Bucket,
  now: number,
): string {
  const parts = [
    `${count(delivered)} delivered`,
    `${count(failed)} failed`,
    ...(busy > 0 ? [`${count(busy)} not sent`] : []),
    ...(p50Ms === null || p99Ms === null ? [] : [`p50 ${span(p50Ms)}, p99 ${span(p99Ms)}`]),
    BREAKERS[breaker],
  ]
  return `${clockMinute(at, now)}: ${parts.join(', ')}`
}
