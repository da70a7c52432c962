import { useSignal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import { FilterFields } from './filter-fields.js'
import { Checks } from './form.js'
import type { InputsProps, Plan } from './setting-plan.js'
import {
  destinationFields,
  destinationForm,
  destinationSettings,
  mistakesIn,
  NO_DESTINATION,
  type DestinationForm,
} from './setting-form.js'
import { list } from './setting-kinds.js'
import { TenantField } from './tenant-field.js'
import { WebhookFields } from './webhook-fields.js'

/** How destinations are created and changed. A new one is disabled, so that it can be tested first. */
export const DESTINATION_PLAN: Plan<DestinationForm> = {
  kind: 'destination',
  empty: NO_DESTINATION,
  initial: { enabled: false },
  formOf: destinationForm,
  settingsOf: destinationSettings,
  mistakesIn,
  fieldsOf: destinationFields,
  Inputs,
}

function Inputs({ form, change, report }: InputsProps<DestinationForm>) {
  const { tenant, sources, webhooks, filters } = form
  return (
    <>
      <TenantField
        value={tenant}
        onChange={(changed) => {
          change({ tenant: changed })
        }}
      />
      <SourceChoice
        tenant={tenant.trim()}
        chosen={sources}
        onChange={(chosen) => {
          change({ sources: chosen })
        }}
      />
      <WebhookFields
        webhooks={webhooks}
        onChange={(changed) => {
          change({ webhooks: changed })
        }}
      />
      <FilterFields
        sources={sources}
        filters={filters}
        onChange={(changed) => {
          change({ filters: changed })
        }}
        report={report}
      />
    </>
  )
}

/** So many sources are offered at once. */
const SHOWN = 30

interface SourcesProps {
  /** Empty for the operator's own destination, which may take the calls of all sources. */
  tenant: string
  chosen: readonly string[]
  onChange: (chosen: readonly string[]) => void
}

/** The sources, of which there may be thousands: those that were chosen, and those that match a search. */
function SourceChoice({ tenant, chosen, onChange }: SourcesProps) {
  const found = useSignal<readonly string[] | undefined>(undefined)
  const total = useSignal(0)
  const q = useSignal('')
  /** Those that were chosen since the form was opened: one that is unchecked stays where it is. */
  const former = useSignal<readonly string[]>([])
  useEffect(() => {
    const controller = new AbortController()
    void list('source', { q: q.value, tenant, limit: SHOWN }, controller.signal).then(
      ({ items, total: all }) => {
        found.value = items.map(({ name }) => name)
        if (q.value === '') total.value = all
      },
      () => undefined,
    )
    return () => {
      controller.abort()
    }
  }, [q.value, tenant])
  const isNone = found.value?.length === 0 && total.value === 0
  const all = [...new Set([...former.value, ...chosen, ...(found.value ?? [])])]
  return (
    <div>
      <Checks
        path="sources"
        label="Sources"
        hint={
          isNone ? (
            <>
              {tenant === ''
                ? 'There is no source yet.'
                : `The tenant ${tenant} has no source yet.`}{' '}
              <a href="#/settings/new/source">Create one</a>
            </>
          ) : chosen.length === 0 ? (
            'Choose at least one: without a source, it gets no calls.'
          ) : (
            'It gets the calls of these sources.'
          )
        }
        {...{ all, chosen }}
        onChange={(changed) => {
          former.value = [...new Set([...former.value, ...chosen])]
          onChange(changed)
        }}
      />
      {total.value > SHOWN && (
        <input
          type="search"
          aria-label="Search more sources by name"
          placeholder={`Search ${total.value} sources`}
          value={q.value}
          onInput={({ currentTarget }) => {
            q.value = currentTarget.value.trim()
          }}
          onKeyDown={(event) => {
            // Or Enter would save the form.
            if (event.key === 'Enter') event.preventDefault()
          }}
        />
      )}
    </div>
  )
}
