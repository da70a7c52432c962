// One source, destination or tenant: its settings, its secrets, and its deletion.
import { useSignal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import { query } from './api.js'
import { DeleteCard } from './delete-card.js'
import { DESTINATION_PLAN } from './destination-plan.js'
import { Failure } from './form.js'
import { NoChanges } from './no-changes.js'
import type { ManagedSetting, ManagedSettings, SettingChanged } from '../src/model/answers.js'
import { go } from './route.js'
import { forgetFresh, FreshSecret, keepFresh, SecretsCard } from './secrets-card.js'
import { Editor, type Plan } from './setting-editor.js'
import { auditHash, enable, hashOf, list, read, type Kind } from './setting-kinds.js'
import { SOURCE_PLAN } from './source-plan.js'
import { isAdmin, readStatus, toApiError, toast } from './state.js'
import { TENANT_PLAN } from './tenant-plan.js'
import { TestCard } from './test-card.js'

/** The form for a new source, destination or tenant. */
export function NewSettingView({ kind }: { kind: Kind }) {
  if (kind === 'tenant') return <New plan={TENANT_PLAN} />
  return kind === 'source' ? <New plan={SOURCE_PLAN} /> : <New plan={DESTINATION_PLAN} />
}

function New<Form extends { name: string }>({ plan }: { plan: Plan<Form> }) {
  const found = useSignal<ManagedSettings | undefined>(undefined)
  const failure = useSignal('')
  const { kind } = plan
  useEffect(() => {
    list(kind, { limit: 1 }).then(
      (answer) => {
        found.value = answer
      },
      (error: unknown) => {
        failure.value = toApiError(error).message
      },
    )
  }, [])
  const created = (changed: SettingChanged) => {
    keepFresh(changed)
    go(hashOf(kind, changed.item.name))
  }
  if (found.value === undefined) {
    return failure.value === '' ? (
      <p aria-busy="true">Reading …</p>
    ) : (
      <Failure text={failure.value} />
    )
  }
  if (!isAdmin.value || !found.value.canChange) {
    return <NoChanges canChange={found.value.canChange} />
  }
  return (
    <section class="card" aria-labelledby="settings">
      <h2 id="settings">Settings</h2>
      {kind === 'destination' && (
        <p class="hint">
          It is created disabled: then you give its secret to the receiver, send a test, and enable
          it.
        </p>
      )}
      <Editor plan={plan} item={undefined} isReadOnly={false} onSaved={created} />
    </section>
  )
}

export function SettingView({ kind, name }: { kind: Kind; name: string }) {
  const item = useSignal<ManagedSetting | undefined>(undefined)
  const failure = useSignal('')
  useEffect(() => {
    read(kind, name).then(
      (found) => {
        item.value = found
      },
      (error: unknown) => {
        failure.value = toApiError(error).message
      },
    )
    return forgetFresh
  }, [])
  const found = item.value
  if (found === undefined) {
    return failure.value === '' ? (
      <p aria-busy="true">Reading …</p>
    ) : (
      <Failure text={failure.value} />
    )
  }
  const isReadOnly = found.origin === 'file' || !isAdmin.value
  const change = (changed: ManagedSetting) => {
    item.value = changed
  }
  const editor = {
    ...{ item: found, isReadOnly, onNewer: change },
    onSaved: (changed: SettingChanged) => {
      keepFresh(changed)
      change(changed.item)
    },
  }
  const isEnabled = found.settings['enabled'] === true
  return (
    <>
      <p class="under-title">
        <span class="hint">
          {kind} in the {found.origin === 'file' ? 'settings file' : 'store'}
        </span>
        {kind === 'destination' && (
          <a href={`#/destinations/${encodeURIComponent(name)}`}>Its deliveries</a>
        )}
        {kind === 'tenant' && (
          <>
            <a href={`#/settings/sources${query({ tenant: name })}`}>Its sources</a>
            <a href={`#/settings/destinations${query({ tenant: name })}`}>Its destinations</a>
          </>
        )}
        <a href={auditHash(kind, name)}>Its changes</a>
      </p>
      {found.origin === 'file' ? (
        <p class="sentence note">
          <span>
            This {kind} is in the settings file. Change it there, and send SIGHUP to reload the
            file.
          </span>
        </p>
      ) : (
        !isAdmin.value && <NoChanges canChange={true} />
      )}
      <FreshSecret kind={kind} name={name} />
      {kind === 'destination' && !isReadOnly && !isEnabled && (
        <TestCard name={name} enabled={false} />
      )}
      {kind === 'destination' && !isReadOnly && (
        <EnableCard name={name} isEnabled={isEnabled} onChanged={change} />
      )}
      <section class="card" aria-labelledby="settings">
        <h2 id="settings">Settings</h2>
        {kind === 'source' && <Editor plan={SOURCE_PLAN} {...editor} />}
        {kind === 'destination' && <Editor plan={DESTINATION_PLAN} {...editor} />}
        {kind === 'tenant' && <Editor plan={TENANT_PLAN} {...editor} />}
      </section>
      {kind !== 'tenant' && <SecretsCard item={found} isReadOnly={isReadOnly} onChanged={change} />}
      {!isReadOnly && <DeleteCard item={found} />}
    </>
  )
}

interface EnableProps {
  name: string
  isEnabled: boolean
  onChanged: (item: ManagedSetting) => void
}

function EnableCard({ name, isEnabled, onChanged }: EnableProps) {
  const failure = useSignal('')
  const isAsking = useSignal(false)
  const turn = async () => {
    isAsking.value = true
    failure.value = ''
    try {
      const { item } = await enable(name, !isEnabled)
      onChanged(item)
      toast.value = isEnabled ? `${name} is disabled.` : `${name} is enabled.`
    } catch (error) {
      failure.value = toApiError(error).message
      await readStatus()
    }
    isAsking.value = false
  }
  return (
    <section class="card" aria-labelledby="enabled">
      <h2 id="enabled">{isEnabled ? 'Enabled' : 'Disabled'}</h2>
      <p class="hint">
        {isEnabled
          ? 'It gets the calls of its sources. To hold them back for a while, pause it instead.'
          : 'New calls are not kept for it. Send it a test, and enable it once its endpoints accept that.'}
      </p>
      <Failure text={failure.value} />
      <div class="actions">
        <button
          type="button"
          class={isEnabled ? '' : 'primary'}
          disabled={isAsking.value}
          onClick={() => void turn()}
        >
          {isEnabled ? 'Disable' : 'Enable'}
        </button>
      </div>
    </section>
  )
}
