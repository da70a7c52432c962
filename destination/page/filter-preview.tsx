import { useSignal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import { post, type Problem } from './api.js'
import { count, counted } from './format.js'
import type { FilterPreview, FilterPreviewResult } from '../src/model/answers.js'
import { callInWords } from './rows.js'
import { filterSettings, mistakesIn, type FilterForm } from './setting-form.js'
import { canWrite, toApiError } from './state.js'

/** So many of the latest calls are tried. */
const LATEST = 100

/** In ms: the pause after the last change before the filters are tried. */
const TYPING_MS = 400

/** So many calls are listed of each reason. */
const LISTED = 5

interface PreviewProps {
  sources: readonly string[]
  filters: readonly FilterForm[]
  report: (part: string, problems: readonly Problem[]) => void
}

/** Tries the filters on the latest calls while they are written. Nothing is sent or changed. */
export function FilterPreviewCard({ sources, filters, report }: PreviewProps) {
  const found = useSignal<FilterPreview | undefined>(undefined)
  const problem = useSignal('')
  const subject = JSON.stringify([sources, filters])
  useEffect(() => {
    if (!canWrite.value) return
    const mistakes = mistakesIn({ webhooks: [], filters })
    let isOver = false
    const look = async () => {
      try {
        if (mistakes.length > 0) throw new WrongFilters()
        const body = { sources, filters: filterSettings(filters), latest: LATEST }
        const preview = await post<FilterPreview>('/filters/preview', body)
        if (isOver) return
        found.value = preview
        problem.value = ''
        report('filters', [])
      } catch (error) {
        if (isOver) return
        const { message, details } = toApiError(error)
        const isWrong = error instanceof WrongFilters || details.problems !== undefined
        found.value = undefined
        problem.value = isWrong ? 'There are mistakes in the filters.' : message
        report('filters', details.problems ?? mistakes)
      }
    }
    const timer = setTimeout(() => void look(), TYPING_MS)
    return () => {
      isOver = true
      clearTimeout(timer)
    }
  }, [subject])
  if (!canWrite.value) return null
  return (
    <section class="preview" aria-label="Preview of the filters">
      <p aria-live="polite">
        {found.value ? inWords(found.value) : problem.value || 'Trying the latest calls …'}
      </p>
      {found.value && <Reasons results={found.value.results} />}
    </section>
  )
}

class WrongFilters extends Error {}

function inWords({ passed, stopped, withoutBody }: FilterPreview): string {
  const all = passed + stopped
  if (all === 0) return 'There are no stored calls of these sources to try the filters on.'
  const beside =
    withoutBody === 0 ? '' : ` ${counted(withoutBody, 'call')} without a body could not be tried.`
  return `${count(passed)} of the last ${counted(all, 'call')} ${passed === 1 ? 'passes' : 'pass'}.${beside}`
}

/** Why calls do not pass, with a few of them. */
function Reasons({ results }: { results: readonly FilterPreviewResult[] }) {
  const byReason = new Map<string, FilterPreviewResult[]>()
  for (const result of results) {
    if (result.passes) continue
    const reason = result.reason ?? ''
    byReason.set(reason, [...(byReason.get(reason) ?? []), result])
  }
  const mostFirst = [...byReason].sort(([, a], [, b]) => b.length - a.length)
  return (
    <ul class="reasons">
      {mostFirst.map(([reason, calls]) => (
        <li key={reason}>
          <p class="break">
            <b>{count(calls.length)} ×</b> {reason}
          </p>
          <p class="hint break">
            {calls
              .slice(0, LISTED)
              .map(({ type, event, user }) => `${callInWords(type, event)} of ${user}`)
              .join(', ')}
            {calls.length > LISTED && ` and ${count(calls.length - LISTED)} more`}
          </p>
        </li>
      ))}
    </ul>
  )
}
