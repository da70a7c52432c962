// JSON with colours, whose objects and lists can be folded.
import type { ComponentChildren } from 'preact'
import { parseJson, type Json } from './json.js'

/** Lists and objects with more entries than this are folded at first, if they are not the outermost. */
const FOLDED = 20

/** Shows a text as JSON if it is JSON, and otherwise as it is. */
export function JsonOrText({ text, label }: { text: string; label: string }) {
  // Numbers and words alone are JSON too, but they read better as the text that they are.
  const json = /^\s*[[{]/.test(text) ? parseJson(text) : undefined
  return (
    <pre class="json" tabIndex={0} aria-label={label}>
      {json === undefined ? text : <Value value={json} depth={0} after="" />}
    </pre>
  )
}

interface ValueProps {
  value: Json
  depth: number
  /** What follows the value: a comma, or nothing. */
  after: string
}

function Value({ value, depth, after }: ValueProps): ComponentChildren {
  if (value.kind === 'list') {
    const items = value.items.map((item) => [undefined, item] as const)
    return <Block open="[" close={`]${after}`} items={items} depth={depth} />
  }
  if (value.kind === 'object') {
    return <Block open="{" close={`}${after}`} items={value.members} depth={depth} />
  }
  return (
    <>
      <span class={`json-${value.kind}`}>{value.text}</span>
      {after}
    </>
  )
}

interface BlockProps {
  open: string
  close: string
  /** A list's items have no names. */
  items: readonly (readonly [name: string | undefined, value: Json])[]
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
              <span class="json-name">{name}</span>:{' '}
            </>
          )}
          <Value value={value} depth={depth + 1} after={i < items.length - 1 ? ',' : ''} />
        </div>
      ))}
      {close}
    </details>
  )
}
