import { useSignal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import { API, get, request } from './api.js'
import type { ManagedSetting, SettingChanged } from '../src/model/answers.js'
import { tenant } from './portal-state.js'
import { readStatus, toApiError, toast } from './state.js'

const SECRETS = [
  ['sharedSecret', 'X-Signature'],
  ['webhookSecret', 'webhook-signature'],
] as const

/** What a tenant may change of its destination: the secrets, and the URLs if it may. */
export function PortalCard({ name }: { name: string }) {
  const item = useSignal<ManagedSetting | undefined>(undefined)
  const problem = useSignal('')
  const generated = useSignal('')
  const isAsking = useSignal(false)
  const path = `/destinations/${encodeURIComponent(name)}`
  const fail = async (error: unknown) => {
    problem.value = toApiError(error).message
    // If the link has expired, this says so.
    await readStatus()
  }
  useEffect(() => {
    get<ManagedSetting>(path).then((read) => {
      item.value = read
    }, fail)
  }, [path])
  const change = async (method: string, to: string, done: string, body?: object) => {
    isAsking.value = true
    problem.value = ''
    generated.value = ''
    try {
      const response = await request(`${API}${path}${to}`, {
        method,
        headers: { 'If-Match': `"${item.value?.version}"` },
        ...(body && { body: JSON.stringify(body) }),
      })
      const changed = (await response.json()) as SettingChanged
      item.value = changed.item
      generated.value = Object.values(changed.generated)[0] ?? ''
      toast.value = done
    } catch (error) {
      await fail(error)
    }
    isAsking.value = false
  }
  const save = (event: SubmitEvent) => {
    event.preventDefault()
    const data = new FormData(event.currentTarget as HTMLFormElement)
    const webhooks = data.getAll('url').map((url) => ({ url: (url as string).trim() }))
    void change('PATCH', '', 'The URLs are changed.', { webhooks })
  }
  const found = item.value
  if (found === undefined) return problem.value === '' ? null : <p class="error">{problem.value}</p>
  const { webhooks } = found.settings as { webhooks: { url: string }[] }
  const isKept = found.origin === 'file'
  return (
    <section class="card" aria-labelledby="own-settings">
      <h2 id="own-settings">Settings</h2>
      {isKept && <p class="hint">Only the operator can change this destination.</p>}
      {!isKept && tenant.value?.mayEditUrls === true && (
        <form onSubmit={save} key={found.version}>
          {webhooks.map(({ url }, i) => (
            <label key={i}>
              {webhooks.length === 1 ? 'URL' : `URL ${i + 1}`}
              <input name="url" type="text" defaultValue={url} required autocomplete="off" />
            </label>
          ))}
          <div class="actions">
            <button type="submit" disabled={isAsking.value}>
              Change
            </button>
          </div>
        </form>
      )}
      {!isKept &&
        SECRETS.map(([field, header]) => {
          const count = found.secrets[field] ?? 0
          // A destination is signed by a shared secret unless somebody has chosen otherwise.
          if (count === 0 && field === 'webhookSecret') return null
          return (
            <div key={field} class="actions">
              {count < 2 ? (
                <button
                  type="button"
                  disabled={isAsking.value}
                  onClick={() =>
                    void change('POST', `/rotation?secret=${field}`, 'There is a new secret.')
                  }
                >
                  Make a new secret for {header}
                </button>
              ) : (
                (['new', 'old'] as const).map((keep) => (
                  <button
                    type="button"
                    disabled={isAsking.value}
                    onClick={() =>
                      void change(
                        'DELETE',
                        `/rotation?secret=${field}&keep=${keep}`,
                        `Only the ${keep} secret is valid now.`,
                      )
                    }
                    key={keep}
                  >
                    Keep only the {keep} secret for {header}
                  </button>
                ))
              )}
            </div>
          )
        })}
      {generated.value && (
        <p role="status">
          The new secret is shown only now: <code class="break">{generated.value}</code> Both
          secrets are valid until you keep only one of them.
        </p>
      )}
      {problem.value && (
        <p class="error" role="alert">
          {problem.value}
        </p>
      )}
    </section>
  )
}
