import { TextField } from './form.js'
import type { InputsProps, Plan } from './setting-plan.js'
import {
  NO_SOURCE,
  SOURCE_FIELDS,
  sourceForm,
  sourceSettings,
  type SourceForm,
} from './setting-form.js'
import { TenantField } from './tenant-field.js'

/** How sources are created and changed. */
export const SOURCE_PLAN: Plan<SourceForm> = {
  kind: 'source',
  empty: NO_SOURCE,
  initial: {},
  formOf: sourceForm,
  settingsOf: sourceSettings,
  mistakesIn: () => [],
  fieldsOf: () => SOURCE_FIELDS,
  Inputs,
}

function Inputs({ form: { tenant, rateLimit }, change }: InputsProps<SourceForm>) {
  return (
    <>
      <TenantField
        value={tenant}
        onChange={(changed) => {
          change({ tenant: changed })
        }}
      />
      <div class="columns">
        <TextField
          path="rateLimit.callsPerSecond"
          label="Calls per second"
          hint="The most calls that each process accepts. Empty: no limit."
          inputMode="numeric"
          value={rateLimit.callsPerSecond}
          onChange={(callsPerSecond) => {
            change({ rateLimit: { ...rateLimit, callsPerSecond } })
          }}
        />
        <TextField
          path="rateLimit.burst"
          label="Burst"
          hint="The most calls at once. Empty: the calls of one second."
          inputMode="numeric"
          value={rateLimit.burst}
          onChange={(burst) => {
            change({ rateLimit: { ...rateLimit, burst } })
          }}
        />
      </div>
    </>
  )
}
