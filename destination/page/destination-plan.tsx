import { useSignal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import { FilterFields } from './filter-fields.js'
import { Checks } from './form.js'
import type { InputsProps, Plan } from './setting-editor.js'
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
  ...{ kind: 'destination', empty: NO_DESTINATION, initial: { enabled: false } },
  labels: {
    name: 'Name',
    tenant: 'Tenant',
    sources: 'Sources',
    webhooks: 'Endpoints',
    filters: 'Filters',
  },
  ...{ formOf: destinationForm, settingsOf: destinationSettings, mistakesIn },
  ...{ fieldsOf: destinationFields, Inputs },
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

/** The sources, of which there may be thousands: the chosen ones, and those that match a search. */
function SourceChoice(props: {
  chosen: readonly string[]
  onChange: (chosen: readonly string[]) => void
}) {
  const found = useSignal<readonly string[] | undefined>(undefined)
  const total = useSignal(0)
  const q = useSignal('')
  useEffect(() => {
    const controller = new AbortController()
    void list('source', { q: q.value, limit: SHOWN }, controller.signal).then(
      ({ items, total: all }) => {
        found.value = items.map(({ name }) => name)
        if (q.value === '') total.value = all
      },
      () => undefined,
    )
    return () => {
      controller.abort()
    }
  }, [q.value])
  const all = [...new Set([...props.chosen, ...(found.value ?? [])])]
  return (
    <div>
      <Checks
        path="sources"
        label="Sources"
        hint={
          found.value?.length === 0 && total.value === 0 ? (
            <>
              There is no source yet. <a href="#/settings/new/source">Create one</a>
            </>
          ) : (
            'It gets the calls of these sources.'
          )
        }
        all={all}
        {...props}
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
