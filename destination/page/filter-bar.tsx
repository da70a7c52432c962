import { useSignal } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'
import { EVENT_TYPES } from '../src/model/call.js'
import type { ManagedSettings, Overview, PortalSettings } from '../src/model/answers.js'
import { get, query } from './api.js'
import {
  FIELDS,
  hashOf,
  inWords,
  RANGES,
  STATES,
  TEXTS,
  timeIn,
  type Field,
  type Filter,
} from './filter.js'
import { useTypingPause } from './form.js'
import { isPortal } from './portal.js'
import { go } from './route.js'
import { now } from './state.js'
import { OUTCOME_CODES, outcome } from './words.js'

/** The fields that a chip shows. How texts are compared is no filter by itself. */
const CHIPS = FIELDS.filter((field) => field !== 'match')

/** The filter as chips that can be removed, and the form that changes it. It is written into the address. */
export function FilterBar({ filter }: { filter: Filter }) {
  const isOpen = useSignal(false)
  const hash = hashOf(filter)
  // The form stays while it changes the filter itself, so that the focus does. After any other change it begins anew.
  const applied = useRef(hash)
  const shown = useRef(hash)
  if (applied.current !== hash) shown.current = applied.current = hash
  const apply = (next: Filter) => {
    applied.current = hashOf(next)
    go(applied.current)
  }
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
      {isOpen.value && <Form filter={filter} onApply={apply} key={shown.current} />}
    </div>
  )
}

function Chip({ filter, field }: { filter: Filter; field: Field }) {
  const { [field]: value = '', ...rest } = filter
  const words = inWords(field, value, now.peek(), filter.match)
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

interface FormProps {
  filter: Filter
  onApply: (filter: Filter) => void
}

function Form({ filter, onApply }: FormProps) {
  const isCustom = useSignal(filter.since !== undefined || filter.until !== undefined)
  const form = useRef<HTMLFormElement>(null)
  const apply = (event: Event) => {
    event.preventDefault()
    if (form.current === null) return
    const data = new FormData(form.current)
    isCustom.value = data.get('range') === 'custom'
    const next = readForm(data, filter)
    // A chosen "from … until …" needs its times first.
    if (isCustom.value && next.since === undefined && next.until === undefined) return
    // A cause belongs to one destination and one outcome.
    const isSame = next.destination === filter.destination && next.code === filter.code
    onApply({ ...next, ...(isSame && filter.cause !== undefined && { cause: filter.cause }) })
  }
  // A time changes with each key: it counts once its field is left.
  const applyUnlessTime = (event: Event) => {
    if (!isTime(event.target)) apply(event)
  }
  const applyTime = (event: Event) => {
    if (isTime(event.target)) apply(event)
  }
  const timeOf = (value: string | undefined) => {
    const at = timeIn(value)
    return at === undefined ? '' : localTime(at)
  }
  return (
    <form
      ref={form}
      class="filter"
      onSubmit={apply}
      onChange={applyUnlessTime}
      onFocusOut={applyTime}
      aria-label="Filter"
    >
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
      <NameInput
        label="Destination"
        name="destination"
        value={filter.destination}
        find={findDestinations}
      />
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
      <NameInput label="Source" name="source" value={filter.source} find={findSources} />
      <Select
        label="Type"
        name="type"
        options={[['', 'any type'], ...EVENT_TYPES.map((type) => [type, type] as const)]}
        value={filter.type}
      />
      <Input label="Event" name="event" value={filter.event} hint="its start is enough" />
      <Input label="User id" name="user" value={filter.user} hint="its start is enough" />
      <button type="submit">Apply</button>
    </form>
  )
}

/** @param before - The present filter. What was not typed is compared as before: a link compares the whole text. */
function readForm(data: FormData, before: Filter): Filter {
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
  const texts = TEXTS.filter((field) => next[field] !== undefined)
  const match = texts.some((field) => next[field] !== before[field]) ? 'prefix' : before.match
  if (texts.length > 0 && match !== undefined) next.match = match
  return next
}

const isTime = (target: unknown): boolean =>
  target instanceof HTMLInputElement && target.type === 'datetime-local'

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

/** So many names are suggested. */
const SUGGESTED = 20

async function findDestinations(q: string): Promise<string[]> {
  const { rows } = await get<Overview>(`/overview${query({ q, limit: SUGGESTED, sort: 'name' })}`)
  return rows.map(({ name }) => name)
}

async function findSources(q: string): Promise<string[]> {
  if (!isPortal) {
    const { items } = await get<ManagedSettings>(`/sources${query({ q, limit: SUGGESTED })}`)
    return items.map(({ name }) => name)
  }
  // A tenant gets all that it has.
  const { items } = await get<PortalSettings>('/sources')
  const names = items.map(({ name }) => name)
  return names.filter((name) => name.toLowerCase().includes(q.toLowerCase())).slice(0, SUGGESTED)
}

interface NameProps extends Pick<InputProps, 'label' | 'name' | 'value'> {
  find: (q: string) => Promise<string[]>
}

/** There may be thousands of sources and destinations, so the field suggests names for what was typed. */
function NameInput({ find, ...input }: NameProps) {
  const names = useSignal<readonly string[]>([])
  const afterTyping = useTypingPause(TYPING_MS)
  const latest = useRef('')
  const look = async (q: string) => {
    latest.current = q
    // Without suggestions, the field still takes every name.
    const found = await find(q).catch(() => [])
    // A slow answer must not replace a newer one.
    if (latest.current === q) names.value = found
  }
  useEffect(() => {
    void look(input.value ?? '')
  }, [])
  const type = (event: Event) => {
    const { value: text } = event.target as HTMLInputElement
    afterTyping(() => void look(text.trim()))
  }
  return (
    <div class="field" onInput={type}>
      <Input {...input} options={names.value} />
    </div>
  )
}
