// One source, destination or tenant: its settings, its secrets, and its deletion.
import { useEffect } from 'preact/hooks'
import { query } from './api.js'
import { changedIn, useChange } from './change.js'
import { DeleteCard } from './delete-card.js'
import { DESTINATION_PLAN } from './destination-plan.js'
import { Failure, single } from './form.js'
import { LeaveDialog } from './leave-dialog.js'
import { forgetKept } from './leaving.js'
import { NoChanges } from './no-changes.js'
import type { ManagedSetting, SettingChanged } from '../src/model/answers.js'
import { PortalLinkCard } from './portal-link-card.js'
import { go } from './route.js'
import { forgetFresh, FreshSecrets, keepFresh, keepLost, SecretsCard } from './secrets-card.js'
import { Editor } from './setting-editor.js'
import type { Plan } from './setting-plan.js'
import { isSame } from './setting-form.js'
import { auditHash, hashOf, list, patch, read, type Kind } from './setting-kinds.js'
import { SOURCE_PLAN } from './source-plan.js'
import { isAdmin, toast } from './state.js'
import { TENANT_PLAN } from './tenant-plan.js'
import { TestCard } from './test-card.js'
import { useRead } from './use-read.js'

/** The form for a new source, destination or tenant. */
export function NewSettingView({ kind }: { kind: Kind }) {
  if (kind === 'tenant') return <New plan={TENANT_PLAN} />
  return kind === 'source' ? <New plan={SOURCE_PLAN} /> : <New plan={DESTINATION_PLAN} />
}

function New<Form extends { name: string }>({ plan }: { plan: Plan<Form> }) {
  const { kind } = plan
  const { found, failure } = useRead((abort) => list(kind, { limit: 1 }, abort), [])
  const created = (changed: SettingChanged, isSecretKnown: boolean) => {
    keepFresh(changed)
    if (!changed.created && !isSecretKnown) keepLost(changed.item)
    forgetKept()
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
      <LeaveDialog />
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
  const { found: item, failure } = useRead((abort) => read(kind, name, abort), [])
  useEffect(() => forgetFresh, [])
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
    item: found,
    isReadOnly,
    onNewer: change,
    onSaved: (changed: SettingChanged) => {
      keepFresh(changed)
      change(changed.item)
    },
  }
  const isEnabled = found.settings['enabled'] === true
  return (
    <>
      <LeaveDialog />
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
      <FreshSecrets item={found} />
      {kind === 'destination' && !isReadOnly && <EnableCard item={found} onChanged={change} />}
      {kind === 'destination' && !isReadOnly && !isEnabled && (
        <TestCard name={name} enabled={false} />
      )}
      <section class="card" aria-labelledby="settings">
        <h2 id="settings">Settings</h2>
        {kind === 'source' && <Editor plan={SOURCE_PLAN} {...editor} />}
        {kind === 'destination' && <Editor plan={DESTINATION_PLAN} {...editor} />}
        {kind === 'tenant' && <Editor plan={TENANT_PLAN} {...editor} />}
      </section>
      {kind !== 'tenant' && <SecretsCard item={found} isReadOnly={isReadOnly} onChanged={change} />}
      {kind === 'tenant' && isAdmin.value && <PortalLinkCard tenant={name} />}
      {!isReadOnly && <DeleteCard item={found} onNewer={change} />}
    </>
  )
}

interface EnableProps {
  item: ManagedSetting
  onChanged: (item: ManagedSetting) => void
}

function EnableCard({ item: shown, onChanged }: EnableProps) {
  const { failure, isAsking, change } = useChange(shown, onChanged)
  const { name, settings } = shown
  const isEnabled = settings['enabled'] === true
  const done = () => {
    toast.value = isEnabled ? `${name} is disabled.` : `${name} is enabled.`
  }
  const turn = () =>
    change(
      async () => {
        const { item } = await patch(shown, { enabled: !isEnabled })
        onChanged(item)
        done()
      },
      {
        isDone: (there) => there !== undefined && isSame(changedIn(shown, there), ['enabled']),
        done,
      },
    )
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
          onClick={single(() => void turn())}
        >
          {isEnabled ? 'Disable' : 'Enable'}
        </button>
      </div>
    </section>
  )
}
