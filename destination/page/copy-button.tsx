import { toast } from './state.js'

/** Copies a text, and says so. */
export function CopyButton({
  text,
  what,
  label = 'Copy',
}: {
  text: string
  what: string
  label?: string
}) {
  const copy = async () => {
    toast.value = ''
    const isCopied = await put(text)
    toast.value = isCopied
      ? `Copied the ${what}.`
      : 'The browser does not allow this page to copy. Select the text and copy it.'
  }
  return (
    <button
      type="button"
      class="small"
      onClick={() => void copy()}
      aria-label={label === 'Copy' ? `Copy the ${what}` : undefined}
    >
      {label}
    </button>
  )
}

/** Puts a text into the clipboard. @returns whether the browser has allowed it */
async function put(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text)
    return true
  } catch {
    // Browsers offer it only to secure contexts (https and localhost), and to frames that may use it.
    return copySelected(text)
  }
}

/** Copies a text that is selected. It is the old means, which needs no permission. */
function copySelected(text: string): boolean {
  const area = document.createElement('textarea')
  const focused = document.activeElement
  area.value = text
  area.className = 'sr'
  area.style.whiteSpace = 'pre'
  // In an open dialog, nothing outside of it can be selected.
  const place = document.querySelector('dialog[open]') ?? document.body
  place.append(area)
  area.select()
  // eslint-disable-next-line @typescript-eslint/no-deprecated -- it is the only means without a permission
  const isCopied = document.execCommand('copy')
  area.remove()
  if (focused instanceof HTMLElement) focused.focus()
  return isCopied
}
