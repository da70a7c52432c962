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
    try {
      await navigator.clipboard.writeText(text)
      toast.value = `Copied the ${what}.`
    } catch {
      // Browsers offer the clipboard only to secure contexts: https and localhost.
      toast.value = 'The browser does not allow this page to copy. Select the text and copy it.'
    }
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
