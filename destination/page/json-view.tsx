// JSON with colours, whose objects and lists can be folded.
import type { ComponentChildren } from 'preact'

/** Lists and objects with more entries than this are folded at first, if they are not the outermost. */
const FOLDED = 20

/** Shows a text as JSON if it is JSON, and otherwise as it is. */
export function JsonOrText({ text, label }: { text: string; label: string }) {
  const parsed = parse(text)
  return (
    <pre class="json" tabIndex={0} aria-label={label}>
      {parsed === undefined ? text : <Value value={parsed.value} depth={0} after="" />}
    </pre>
  )
}

/** Numbers and words alone are JSON too, but they read better as the text that they are. */
function parse(text: string): { value: unknown } | undefined {
  if (!/^\s*[[{]/.test(text)) return undefined
  try {
    return { value: JSON.parse(text) as unknown }
  } catch {
    return undefined
  }
}

interface ValueProps {
  value: unknown
  depth: number
  /** What follows the value: a comma, or nothing. */
  after: string
}

function Value({ value, depth, after }: ValueProps): ComponentChildren {
  if (Array.isArray(value)) {
    const items = value.map((item) => [undefined, item as unknown] as const)
    return <Block open="[" close={`]${after}`} items={items} depth={depth} />
  }
  if (typeof value === 'object' && value !== null) {
    return <Block open="{" close={`}${after}`} items={Object.entries(value)} depth={depth} />
  }
  const kind = value === null ? 'null' : typeof value
  return (
    <>
      <span class={`json-${kind}`}>{JSON.stringify(value)}</span>
      {after}
    </>
  )
}

interface BlockProps {
  open: string
  close: string
  /** A list's items have no names. */
  items: readonly (readonly [name: string | undefined, value: unknown])[]
  depth: number
}

/** What is within a `details` stands on lines of its own, so the closing bracket and the comma are within it. */
function Block({ open, close, items, depth }: BlockProps) {
  if (items.length === 0) return <>{open + close}</>
  return (
    <details class="fold" open={depth === 0 || items.length <= FOLDED}>
      <summary>
        {open}
        <span class="folded">
          {' '}
          {items.length} … {close}
        </span>
      </summary>
      {items.map(([name, value], i) => (
        <div class="json-line" key={i}>
          {name !== undefined && (
            <>
              <span class="json-name">{JSON.stringify(name)}</span>:{' '}
            </>
          )}
          <Value value={value} depth={depth + 1} after={i < items.length - 1 ? ',' : ''} />
        </div>
      ))}
      {close}
    </details>
  )
}
