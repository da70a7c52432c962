import { useSignal } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'
import { CALL_TYPES } from '../src/model/call.js'
import type { Overview } from '../src/model/answers.js'
import { get, query } from './api.js'
import { FIELDS, hashOf, inWords, RANGES, STATES, type Field, type Filter } from './filter.js'
import { go } from './route.js'
import { now, status } from './state.js'
import { OUTCOME_CODES, outcome } from './words.js'

/** The fields that a chip shows. How texts are compared is no filter by itself. */
const CHIPS = FIELDS.filter((field) => field !== 'match')

/** In a text field, the start of the text is enough, in upper or lower case. */
const TEXTS: readonly Field[] = ['event', 'user']

/** The filter as chips that can be removed, and the form that changes it. It is written into the address. */
export function FilterBar({ filter }: { filter: Filter }) {
  const isOpen = useSignal(false)
  const active = CHIPS.filter((field) => filter[field] !== undefined)
  return (
    <div class="filter-bar">
      <div class="chips">
        <button
          type="button"
          class="chip filter-toggle"
          aria-expanded={isOpen.value}
          onClick={() => {
            isOpen.value = !isOpen.value
          }}
        >
          Filter
        </button>
        {active.map((field) => (
          <Chip filter={filter} field={field} key={field} />
        ))}
        {active.length > 1 && (
          <a class="chip clear" href="#/deliveries">
            Clear
          </a>
        )}
      </div>
      {isOpen.value && <Form filter={filter} />}
    </div>
  )
}

function Chip({ filter, field }: { filter: Filter; field: Field }) {
  const { [field]: value = '', ...rest } = filter
  const words = inWords(field, value, now.peek())
  return (
    <a
      class="chip active"
      href={hashOf(rest)}
      aria-label={`Remove the filter ${words}`}
      title={words}
    >
      <span class="chip-text">{words}</span> <span aria-hidden="true">×</span>
    </a>
  )
}

const RANGE_OPTIONS = [
  ['', 'any time'],
  ...Object.entries(RANGES).map(([range, { words }]) => [range, words] as const),
  ['custom', 'from … until …'],
] as const

const STATUSES = [
  '2xx',
  '3xx',
  '4xx',
  '5xx',
  '400',
  '401',
  '403',
  '404',
  '410',
  '422',
  '429',
  '500',
  '502',
  '503',
]

function Form({ filter }: { filter: Filter }) {
  const isCustom = useSignal(filter.since !== undefined || filter.until !== undefined)
  const form = useRef<HTMLFormElement>(null)
  const apply = (event: Event) => {
    event.preventDefault()
    if (form.current === null) return
    const data = new FormData(form.current)
    isCustom.value = data.get('range') === 'custom'
    const next = readForm(data)
    // A chosen "from … until …" needs its times first.
    if (isCustom.value && next.since === undefined && next.until === undefined) return
    // A cause belongs to one destination and one outcome.
    const isSame = next.destination === filter.destination && next.code === filter.code
    go(hashOf({ ...next, ...(isSame && filter.cause !== undefined && { cause: filter.cause }) }))
  }
  const { sources = [] } = status.peek() ?? {}
  const timeOf = (value: string | undefined) =>
    value === undefined ? '' : localTime(Number(value))
  return (
    <form ref={form} class="filter" onSubmit={apply} onChange={apply} aria-label="Filter">
      <Select label="State" name="state" options={STATES} value={filter.state} />
      <Select
        label="Received"
        name="range"
        options={RANGE_OPTIONS}
        value={isCustom.value ? 'custom' : filter.range}
      />
      {isCustom.value && (
        <>
          <Input label="From" name="since" type="datetime-local" value={timeOf(filter.since)} />
          <Input label="Until" name="until" type="datetime-local" value={timeOf(filter.until)} />
        </>
      )}
      <DestinationInput value={filter.destination} />
      <Input label="Endpoint URL" name="endpoint" value={filter.endpoint} />
      <Input
        label="HTTP status"
        name="status"
        value={filter.status}
        options={STATUSES}
        pattern="[1-9](xx|[0-9][0-9])"
        hint="503 or 5xx"
      />
      <Select
        label="Outcome"
        name="code"
        options={[
          ['', 'any outcome'],
          ...OUTCOME_CODES.map((code) => [code, outcome(code)] as const),
        ]}
        value={filter.code}
      />
      <Select
        label="Source"
        name="source"
        options={[['', 'any source'], ...sources.map(({ name }) => [name, name] as const)]}
        value={filter.source}
      />
      <Select
        label="Type"
        name="type"
        options={[['', 'any type'], ...CALL_TYPES.map((type) => [type, type] as const)]}
        value={filter.type}
      />
      <Input label="Event" name="event" value={filter.event} hint="its start is enough" />
      <Input label="User id" name="user" value={filter.user} hint="its start is enough" />
      <button type="submit">Apply</button>
    </form>
  )
}

function readForm(data: FormData): Filter {
  const text = (name: string) => {
    const value = data.get(name)
    return typeof value === 'string' ? value.trim() : ''
  }
  const next: Filter = {}
  for (const field of FIELDS) {
    const value = text(field)
    if (value === '' || value === 'custom') continue
    next[field] = field === 'since' || field === 'until' ? String(Date.parse(value)) : value
  }
  if (next.since !== undefined || next.until !== undefined) delete next.range
  if (TEXTS.some((field) => next[field] !== undefined)) next.match = 'prefix'
  return next
}

/** A time as an input takes it, in the browser's time zone. */
function localTime(at: number): string {
  return new Date(at - new Date(at).getTimezoneOffset() * 60_000).toISOString().slice(0, 16)
}

interface SelectProps {
  label: string
  name: string
  options: readonly (readonly [string, string])[]
  value: string | undefined
}

function Select({ label, name, options, value = '' }: SelectProps) {
  // The settings may no longer have the name, but old deliveries still do: it stays selectable.
  const all = options.some(([one]) => one === value) ? options : [...options, [value, value]]
  return (
    <label>
      <span>{label}</span>
      <select name={name}>
        {all.map(([one = '', words]) => (
          <option value={one} selected={one === value} key={one}>
            {words}
          </option>
        ))}
      </select>
    </label>
  )
}

interface InputProps {
  label: string
  name: string
  value: string | undefined
  type?: 'text' | 'datetime-local'
  options?: readonly string[]
  pattern?: string
  hint?: string
}

function Input({ label, name, value = '', type = 'text', options, pattern, hint }: InputProps) {
  const list = options && `${name}-options`
  return (
    <label>
      <span>{label}</span>
      <input
        name={name}
        type={type}
        defaultValue={value}
        list={list}
        pattern={pattern}
        placeholder={hint}
        autocomplete="off"
        spellcheck={false}
      />
      {options && (
        <datalist id={list}>
          {options.map((one) => (
            <option value={one} key={one} />
          ))}
        </datalist>
      )}
    </label>
  )
}

/** In ms: the pause after the last key before names are looked up. */
const TYPING_MS = 200

/** There may be thousands of destinations, so the destination suggests names for what was typed. */
function DestinationInput({ value }: { value: string | undefined }) {
  const names = useSignal<string[]>([])
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined)
  const look = async (q: string) => {
    const found = await get<Overview>(`/overview${query({ q, limit: 20, sort: 'name' })}`).catch(
      () => undefined,
    )
    if (found) names.value = found.rows.map(({ name }) => name)
  }
  useEffect(() => {
    void look(value ?? '')
    return () => {
      clearTimeout(timer.current)
    }
  }, [])
  const type = (event: Event) => {
    const { value: text } = event.target as HTMLInputElement
    clearTimeout(timer.current)
    timer.current = setTimeout(() => void look(text), TYPING_MS)
  }
  return (
    <div class="field" onInput={type}>
      <Input label="Destination" name="destination" value={value} options={names.value} />
    </div>
  )
}
