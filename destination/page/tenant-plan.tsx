import { TextField } from './form.js'
import type { InputsProps, Plan } from './setting-plan.js'
import {
  NO_TENANT,
  QUOTAS,
  TENANT_FIELDS,
  tenantForm,
  tenantSettings,
  type Quota,
  type TenantForm,
} from './setting-form.js'

/** How tenants are created and changed. */
export const TENANT_PLAN: Plan<TenantForm> = {
  kind: 'tenant',
  empty: NO_TENANT,
  initial: {},
  formOf: tenantForm,
  settingsOf: tenantSettings,
  mistakesIn: () => [],
  fieldsOf: () => TENANT_FIELDS,
  Inputs,
}

const WORDS: Readonly<Record<Quota, readonly [label: string, hint: string]>> = {
  callsPerSecond: ['Calls per second', 'Of all its sources. Empty: no limit.'],
  burst: ['Burst', 'The most calls at once. Empty: the calls of one second.'],
  waiting: ['Waiting messages', 'More calls are refused then. Empty: no limit.'],
  concurrency: ['Concurrency', 'The most requests at once. Empty: no limit.'],
}

function Inputs({ form: { title, quotas, portal }, change }: InputsProps<TenantForm>) {
  return (
    <>
      <TextField
        path="title"
        label="Title"
        hint="The name that people read."
        value={title}
        onChange={(changed) => {
          change({ title: changed })
        }}
      />
      <div class="columns">
        {QUOTAS.map((quota) => (
          <TextField
            path={`quotas.${quota}`}
            label={WORDS[quota][0]}
            hint={WORDS[quota][1]}
            inputMode="numeric"
            value={quotas[quota]}
            onChange={(changed) => {
              change({ quotas: { ...quotas, [quota]: changed } })
            }}
            key={quota}
          />
        ))}
      </div>
      <label class="check">
        <input
          type="checkbox"
          checked={portal}
          onChange={({ currentTarget }) => {
            change({ portal: currentTarget.checked })
          }}
        />
        It may change the URLs of its endpoints
      </label>
    </>
  )
}
