import { useSignal } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'
import uPlot from 'uplot'
import { clockDay, clockMinute, compact, count, exactly, span as inUnits } from './format.js'
import type { Series } from '../src/model/answers.js'
import { theme } from './theme.js'
import { BREAKERS } from './words.js'

const HEIGHT = 170
/** Charts with the same key show the cursor at the same time. */
const SYNC = 'hookline'
const FONT = '12px system-ui, sans-serif'

interface Line {
  label: string
  /** The name of its colour in the style sheet. */
  color: string
  values: (number | null)[]
  /** How a value is written in the legend. */
  inWords: (value: number) => string
}

interface Props {
  /** What the chart shows, for screen readers. */
  label: string
  series: Series
  now: number
}

/** How many requests were delivered and failed, as bars on top of each other. */
export function RequestsChart({ label, series, now }: Props) {
  const { delivered, failed } = series
  const total = delivered.map((one, i) => one + (failed[i] ?? 0))
  return (
    <Chart
      label={label}
      series={series}
      now={now}
      title={`Requests per ${bucketName(series.bucketMs)}`}
      isBars
      // The bar of all requests lies behind the one of those that were delivered, so that failures are on top.
      drawn={[total, delivered]}
      lines={[
        { label: 'failed', color: '--bad-mark', values: failed, inWords: count },
        { label: 'delivered', color: '--good-mark', values: delivered, inWords: count },
      ]}
    />
  )
}

/** How long requests took. */
export function LatencyChart({ label, series, now }: Props) {
  const { p50Ms, p99Ms } = series
  return (
    <Chart
      label={label}
      series={series}
      now={now}
      title="Response time"
      drawn={[p99Ms, p50Ms]}
      lines={[
        { label: 'p99', color: '--p99', values: p99Ms, inWords: inUnits },
        { label: 'p50', color: '--p50', values: p50Ms, inWords: inUnits },
      ]}
    />
  )
}

interface ChartProps extends Props {
  title: string
  isBars?: boolean
  drawn: (number | null)[][]
  lines: Line[]
}

function Chart({ label, series, now, title, isBars = false, drawn, lines }: ChartProps) {
  const place = useRef<HTMLDivElement>(null)
  const plot = useRef<uPlot | undefined>(undefined)
  const chosen = useSignal<number | undefined>(undefined)
  const { firstAt, bucketMs } = series
  const times = series.delivered.map((_, i) => (firstAt + i * bucketMs) / 1_000)

  useEffect(() => {
    const host = place.current
    if (host === null) return undefined
    const make = () => {
      plot.current?.destroy()
      const options = optionsOf(lines, isBars, bucketMs, times.length, host.clientWidth, (at) => {
        chosen.value = at
      })
      plot.current = new uPlot(options, [times, ...drawn], host)
    }
    make()
    const observer = new ResizeObserver(() => {
      plot.current?.setSize({ width: host.clientWidth, height: HEIGHT })
    })
    observer.observe(host)
    const scheme = matchMedia('(prefers-color-scheme: dark)')
    scheme.addEventListener('change', make)
    return () => {
      observer.disconnect()
      scheme.removeEventListener('change', make)
      plot.current?.destroy()
    }
    // The colours are read when the chart is made.
  }, [theme.value, bucketMs])
  useEffect(() => {
    plot.current?.setData([times, ...drawn])
  }, [series])

  const at = chosen.value
  return (
    <figure class="chart">
      <figcaption>
        <span class="chart-title">{title}</span>
        <span class="legend">
          {at !== undefined && <span class="when">{bucketTime(firstAt, bucketMs, at, now)}</span>}
          {lines.toReversed().map(({ label: name, color, values, inWords }) => (
            <span key={name}>
              <i class={`mark ${color.slice(2)}`} />
              {name}
              <b>{legendValue(values, at, inWords, isBars)}</b>
            </span>
          ))}
        </span>
      </figcaption>
      <div ref={place} class="plot" role="img" aria-label={`${label}: ${title}`} />
    </figure>
  )
}

/** The value under the cursor. Without one: the sum of counts, or the largest of durations. */
function legendValue(
  values: readonly (number | null)[],
  at: number | undefined,
  inWords: (value: number) => string,
  isSum: boolean,
): string {
  if (at !== undefined) {
    const value = values[at]
    return typeof value === 'number' ? inWords(value) : '–'
  }
  const known = values.filter((value) => value !== null)
  if (isSum) return inWords(known.reduce((sum, value) => sum + value, 0))
  return known.length === 0 ? '–' : `≤ ${inWords(Math.max(...known))}`
}

function bucketTime(firstAt: number, bucketMs: number, place: number, now: number): string {
  const at = firstAt + place * bucketMs
  return bucketMs >= 3_600_000 ? clockDay(at) : clockMinute(at, now)
}

function bucketName(ms: number): string {
  return ms === 60_000 ? 'minute' : ms < 3_600_000 ? `${ms / 60_000} minutes` : 'hour'
}

function optionsOf(
  lines: readonly Line[],
  isBars: boolean,
  bucketMs: number,
  places: number,
  width: number,
  onPlace: (place: number | undefined) => void,
): uPlot.Options {
  const style = getComputedStyle(document.documentElement)
  const color = (name: string) => resolved(style.getPropertyValue(name))
  const axis: uPlot.Axis = {
    stroke: color('--quiet'),
    font: FONT,
    grid: { stroke: color('--line'), width: 1 },
    ticks: { show: false },
  }
  const bars = uPlot.paths.bars?.({ size: [0.8, 24], radius: 0.15 })
  // A line between two points can't show one that stands alone.
  const dots: uPlot.Series.Points.Filter = ({ data }, line, isShown) => {
    const values = data[line] ?? []
    const isAlone = (_: unknown, i: number) =>
      typeof values[i] === 'number' &&
      typeof values[i - 1] !== 'number' &&
      typeof values[i + 1] !== 'number'
    return isShown ? null : Array.from(values.keys()).filter((i) => isAlone(values, i))
  }
  const lineOf = ({ label, color: name }: Line): uPlot.Series => {
    const stroke = color(name)
    return isBars && bars
      ? { label, fill: stroke, width: 0, paths: bars, points: { show: false } }
      : { label, stroke, width: 2, points: { size: 4, fill: stroke, filter: dots } }
  }
  return {
    width,
    height: HEIGHT,
    padding: [8, 20, 0, 0],
    legend: { show: false },
    cursor: {
      sync: { key: SYNC },
      drag: { x: false, y: false },
      points: { show: !isBars },
    },
    scales: {
      // Half a bucket of room on both sides, so that the first and the last bar are whole.
      x: {
        range: (_, min, max) =>
          places === 0 ? [min, max] : [min - bucketMs / 2_000, max + bucketMs / 2_000],
      },
      y: { range: (_, _min, max) => [0, Math.max(isBars ? 4 : 10, (max || 0) * 1.08)] },
    },
    axes: [
      {
        ...axis,
        grid: { show: false },
        size: 28,
        space: 70,
        values: (_, splits) => splits.map((at) => axisTime(at * 1_000, bucketMs)),
      },
      {
        ...axis,
        size: 54,
        space: 34,
        values: (_, splits) =>
          splits.map((value) =>
            isBars ? (value % 1 === 0 ? compact(value) : '') : inUnits(value),
          ),
      },
    ],
    series: [{}, ...lines.map(lineOf)],
    hooks: {
      setCursor: [
        ({ cursor: { idx, left } }) => {
          onPlace(typeof idx === 'number' && (left ?? -1) >= 0 ? idx : undefined)
        },
      ],
    },
  }
}

const hourOf = new Intl.DateTimeFormat('en-GB', { timeStyle: 'short' })
const dayOf = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short' })

/** Midnight is shown as the day. */
function axisTime(at: number, bucketMs: number): string {
  const text = hourOf.format(at)
  return bucketMs > 60_000 && text === '00:00' ? dayOf.format(at) : text
}

/** A colour of the style sheet as a canvas takes it: `light-dark()` is resolved by a throwaway element. */
function resolved(value: string): string {
  const probe = document.createElement('span')
  probe.style.color = value
  document.body.append(probe)
  const { color } = getComputedStyle(probe)
  probe.remove()
  return color
}

/** A chart as wide as a word, for a row of a table: delivered requests, with the failed ones on top. */
export function Sparkline({ delivered, failed }: { delivered: number[]; failed: number[] }) {
  const most = Math.max(1, ...delivered.map((one, i) => one + (failed[i] ?? 0)))
  const height = 24
  const up = (value: number) => (value === 0 ? 0 : Math.max(1.5, (value / most) * height))
  return (
    <svg
      class="spark"
      viewBox={`0 0 ${delivered.length} ${height}`}
      preserveAspectRatio="none"
      aria-hidden="true"
    >
      {delivered.map((good, i) => {
        const bad = failed[i] ?? 0
        if (good + bad === 0) return null
        return (
          <g key={i}>
            <rect class="good" x={i} width="0.8" y={height - up(good)} height={up(good)} />
            <rect class="bad" x={i} width="0.8" y={height - up(good + bad)} height={up(bad)} />
          </g>
        )
      })}
    </svg>
  )
}

/** The same data as a table, for screen readers and for who wants the numbers. */
export function ChartTable({ series, name }: { series: Series; name: string }) {
  const { delivered, failed, busy, p50Ms, p99Ms, breaker, firstAt, bucketMs } = series
  const busyPlaces = delivered
    .map((_, i) => i)
    .filter((i) => {
      const sent = (delivered[i] ?? 0) + (failed[i] ?? 0) + (busy[i] ?? 0)
      return sent > 0 || breaker[i] !== 'closed'
    })
  if (busyPlaces.length === 0) return null
  const ms = (value: number | null | undefined) =>
    typeof value === 'number' ? inUnits(value) : '–'
  return (
    <details class="numbers">
      <summary>
        The numbers<span class="sr"> of {name}</span>
      </summary>
      <div class="scroll" tabIndex={0} role="region" aria-label={`Numbers of ${name}`}>
        <table>
          <thead>
            <tr>
              <th scope="col">From</th>
              <th scope="col">Delivered</th>
              <th scope="col">Failed</th>
              <th scope="col">Not sent</th>
              <th scope="col">p50</th>
              <th scope="col">p99</th>
              <th scope="col">Breaker</th>
            </tr>
          </thead>
          <tbody>
            {busyPlaces.reverse().map((i) => (
              <tr key={i}>
                <th scope="row" title={exactly(firstAt + i * bucketMs)}>
                  {bucketTime(firstAt, bucketMs, i, Date.now())}
                </th>
                <td>{count(delivered[i] ?? 0)}</td>
                <td>{count(failed[i] ?? 0)}</td>
                <td>{count(busy[i] ?? 0)}</td>
                <td>{ms(p50Ms[i])}</td>
                <td>{ms(p99Ms[i])}</td>
                <td>{BREAKERS[breaker[i] ?? 'closed']}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </details>
  )
}
