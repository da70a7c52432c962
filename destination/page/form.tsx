// The parts that all forms share: fields with their mistakes, lists of choices, and notices.
import { createContext, type ComponentChildren } from 'preact'
import { useContext, useEffect, useId, useRef } from 'preact/hooks'
import { late } from './api.js'

/** The messages about each field of a form. */
export const Mistakes = createContext<Readonly<Record<string, readonly string[]>>>({})

interface FieldProps {
  /** The path of the value in the settings. Mistakes at this path are shown here. */
  path: string
  label: string
  hint?: ComponentChildren | undefined
}

interface Described {
  id: string
  'aria-describedby': string
  'aria-invalid': 'true' | undefined
}

/** A label, what is entered, a hint, and what is wrong. */
function Field({
  path,
  label,
  hint,
  children,
}: FieldProps & { children: (attributes: Described) => ComponentChildren }) {
  const id = useId()
  const isWrong = (useContext(Mistakes)[path] ?? []).length > 0
  return (
    <div class="form-field">
      <label for={id}>{label}</label>
      {children({
        id,
        'aria-describedby': `${id}-hint ${id}-wrong`,
        'aria-invalid': isWrong ? 'true' : undefined,
      })}
      <Wrong path={path} id={`${id}-wrong`} />
      {hint !== undefined && (
        <p class="hint" id={`${id}-hint`}>
          {hint}
        </p>
      )}
    </div>
  )
}

/** What is wrong at a path. */
export function Wrong({ path, id }: { path: string; id?: string }) {
  const messages = useContext(Mistakes)[path] ?? []
  if (messages.length === 0) return null
  return (
    <ul class="wrong" id={id}>
      {messages.map((message) => (
        <li key={message}>{sentence(message)}</li>
      ))}
    </ul>
  )
}

/** The messages of the destination continue a path; alone they begin a sentence. */
const sentence = (message: string): string => message.charAt(0).toUpperCase() + message.slice(1)

interface TextProps extends FieldProps {
  value: string
  onChange: (value: string) => void
}

interface InputProps extends TextProps {
  inputMode?: 'text' | 'url' | 'numeric' | 'decimal'
  placeholder?: string
  /** Values that are suggested. */
  options?: readonly string[]
}

export function TextField(props: InputProps) {
  const { path, label, hint, value, onChange } = props
  const { inputMode = 'text', placeholder = '', options = [] } = props
  return (
    <Field path={path} label={label} hint={hint}>
      {(attributes) => (
        <>
          <input
            {...attributes}
            {...{ inputMode, placeholder, value }}
            type="text"
            list={options.length > 0 ? `${attributes.id}-options` : undefined}
            onInput={({ currentTarget }) => {
              onChange(currentTarget.value)
            }}
            autocomplete="off"
            spellcheck={false}
          />
          {options.length > 0 && (
            <datalist id={`${attributes.id}-options`}>
              {options.map((one) => (
                <option value={one} key={one} />
              ))}
            </datalist>
          )}
        </>
      )}
    </Field>
  )
}

export function AreaField({ path, label, hint, value, onChange }: TextProps) {
  return (
    <Field path={path} label={label} hint={hint}>
      {(attributes) => (
        <textarea
          {...attributes}
          value={value}
          rows={Math.min(12, Math.max(2, value.split('\n').length))}
          onInput={({ currentTarget }) => {
            onChange(currentTarget.value)
          }}
          spellcheck={false}
        />
      )}
    </Field>
  )
}

/** A group of fields, with the mistakes that belong to the whole group. */
export function Group(props: { path: string; legend: string; children: ComponentChildren }) {
  return (
    <fieldset class="group">
      <legend>{props.legend}</legend>
      <Wrong path={props.path} />
      {props.children}
    </fieldset>
  )
}

interface ChecksProps extends FieldProps {
  all: readonly string[]
  chosen: readonly string[]
  onChange: (chosen: readonly string[]) => void
}

/** Some of a few values. */
export function Checks({ path, label, hint, all, chosen, onChange }: ChecksProps) {
  const id = useId()
  return (
    <fieldset class="checks" aria-describedby={`${id}-hint ${id}-wrong`}>
      <legend>{label}</legend>
      <div class="choices">
        {all.map((one) => (
          <label key={one}>
            <input
              type="checkbox"
              checked={chosen.includes(one)}
              onChange={({ currentTarget }) => {
                const others = chosen.filter((other) => other !== one)
                onChange(currentTarget.checked ? [...others, one] : others)
              }}
            />
            {one}
          </label>
        ))}
      </div>
      <Wrong path={path} id={`${id}-wrong`} />
      {hint !== undefined && (
        <p class="hint" id={`${id}-hint`}>
          {hint}
        </p>
      )}
    </fieldset>
  )
}

interface ChoiceProps<Value extends string> {
  legend: string
  options: readonly (readonly [Value, string])[]
  value: Value
  onChange: (value: Value) => void
}

/** One of a few values. */
export function Choice<Value extends string>(props: ChoiceProps<Value>) {
  const { legend, options, value, onChange } = props
  const name = useId()
  return (
    <fieldset class="checks">
      <legend>{legend}</legend>
      <div class="choices">
        {options.map(([one, words]) => (
          <label key={one}>
            <input
              type="radio"
              name={name}
              checked={one === value}
              onChange={() => {
                onChange(one)
              }}
            />
            {words}
          </label>
        ))}
      </div>
    </fieldset>
  )
}

/** Puts something off until no key was pressed for so many ms. What was put off last is done, unless the view is closed before. */
export function useTypingPause(ms: number): (act: () => void) => void {
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined)
  useEffect(
    () => () => {
      clearTimeout(timer.current)
    },
    [],
  )
  return (act) => {
    clearTimeout(timer.current)
    timer.current = setTimeout(act, ms)
  }
}

/** In ms: the pause after the last key before a list is searched. */
const TYPING_MS = 250

interface SearchProps {
  label: string
  /** What is searched, which the empty field says. */
  placeholder: string
  /** What the address searches for when the field is first shown. */
  value: string
  onSearch: (q: string) => void
}

/** Searches a list for what is typed. */
export function SearchField({ label, placeholder, value, onSearch }: SearchProps) {
  const afterTyping = useTypingPause(TYPING_MS)
  return (
    <input
      type="search"
      class="search-rows"
      aria-label={label}
      placeholder={placeholder}
      defaultValue={value}
      onInput={(event) => {
        const typed = event.currentTarget.value.trim()
        afterTyping(() => {
          onSearch(typed)
        })
      }}
      spellcheck={false}
    />
  )
}

/** What went wrong with a request. Screen readers announce it. */
export function Failure({ text }: { text: string }) {
  return (
    <p class="error break" role="alert" hidden={text === ''}>
      {text}
    </p>
  )
}

/** Says that an answer is late. It stands above the view, and in each dialog, which covers what is behind it. */
export function LateAnswer() {
  if (late.value === 0) return null
  return (
    <p class="banner" role="alert">
      A request has had no answer for 10 s, and the page waits for it. If it was to change
      something, that may be done already.
    </p>
  )
}

/**
 * Moves the focus once the page shows what was changed. Without this, the focus is lost when the button that was pressed
 * disappears, and people with a keyboard or a screen reader begin at the top again.
 */
export function focusSoon(find: () => HTMLElement | null | undefined): void {
  setTimeout(() => find()?.focus())
}

/** Ignores the second click of a double-click: it would press what has come to the place of the button meanwhile. */
export const single =
  (act: () => void) =>
  ({ detail }: MouseEvent): void => {
    if (detail < 2) act()
  }
