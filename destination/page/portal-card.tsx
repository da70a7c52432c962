// What a tenant may change of its destination: the secrets, and the URLs if it may.
import { signal, useSignal } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'
import { API, get, request, token, type Problem } from './api.js'
import { CopyButton } from './copy-button.js'
import { Failure, focusSoon, Mistakes, TextField } from './form.js'
import type { ManagedSetting, SettingChanged } from '../src/model/answers.js'
import { HIDDEN } from '../src/model/hidden.js'
import { tenant } from './portal-state.js'
import { readStatus, toApiError, toast } from './state.js'

const SECRETS = [
  ['sharedSecret', 'X-Signature'],
  ['webhookSecret', 'webhook-signature'],
] as const

type SecretField = (typeof SECRETS)[number][0]

/** The new secrets by destination and field, until somebody says that they are stored. Nothing shows them a second time. */
const fresh = signal<Readonly<Record<string, string>>>({})

// Another link may be of another tenant.
token.subscribe(() => {
  fresh.value = {}
})

/** In ms: the second click of a double-click must not press what has come to this place. Systems wait for it up to 900 ms. */
const DOUBLE_CLICK_MS = 900

const CONFLICT =
  'Somebody has changed this destination meanwhile. Look at it, and repeat what you did if it is still right.'

/** The paths of the mistakes that stand at a field. */
const URL_PATH = /^webhooks\[\d+\]\.url$/

/** Makes a change of the version that is shown. @returns whether it was made. */
type Change = (change: {
  method: string
  to?: string
  body?: object
  done: string
}) => Promise<boolean>

export function PortalCard({ name }: { name: string }) {
  const item = useSignal<ManagedSetting | undefined>(undefined)
  const failure = useSignal('')
  const problems = useSignal<readonly Problem[]>([])
  const isHeld = useSignal(false)
  const path = `/destinations/${encodeURIComponent(name)}`
  const read = async () => {
    item.value = await get<ManagedSetting>(path)
  }
  const fail = async (error: unknown) => {
    const { code, message, details } = toApiError(error)
    problems.value = details.problems ?? []
    const others = problems.value.filter(({ path }) => !URL_PATH.test(path))
    if (details.problems) {
      failure.value = ['Nothing is changed.', ...others.map((one) => one.message)].join(' ')
    } else failure.value = code === 'version_mismatch' ? CONFLICT : message
    // What is shown may be out of date, also if an answer was lost.
    await read().catch(() => undefined)
    // If the link has expired, this says so.
    await readStatus()
  }
  useEffect(() => {
    read().catch(fail)
  }, [path])
  const change: Change = async ({ method, to = '', body, done }) => {
    isHeld.value = true
    failure.value = ''
    problems.value = []
    toast.value = ''
    try {
      const response = await request(`${API}${path}${to}`, {
        method,
        headers: { 'If-Match': `"${item.value?.version}"` },
        ...(body && { body: JSON.stringify(body) }),
      })
      const changed = (await response.json()) as SettingChanged
      const added = Object.entries(changed.generated).map(([field, value]) => [
        `${name} ${field}`,
        value,
      ])
      fresh.value = { ...fresh.value, ...(Object.fromEntries(added) as Record<string, string>) }
      item.value = changed.item
      toast.value = done
      return true
    } catch (error) {
      await fail(error)
      return false
    } finally {
      setTimeout(() => {
        isHeld.value = false
      }, DOUBLE_CLICK_MS)
    }
  }
  const found = item.value
  if (found === undefined) return <Failure text={failure.value} />
  const isKept = found.origin === 'file'
  const parts = { item: found, isHeld: isHeld.value, change }
  return (
    <section class="card" aria-labelledby="own-settings">
      <h2 id="own-settings">Settings</h2>
      {isKept && <p class="hint">Only the operator can change this destination.</p>}
      <Failure text={failure.value} />
      {!isKept && tenant.value?.mayEditUrls === true && (
        <Urls {...parts} problems={problems.value} />
      )}
      {!isKept &&
        SECRETS.map(([field, header]) => <Secret {...parts} {...{ field, header }} key={field} />)}
    </section>
  )
}

interface PartProps {
  item: ManagedSetting
  isHeld: boolean
  change: Change
}

const urlsOf = ({ settings }: ManagedSetting): string[] =>
  (settings as { webhooks: { url: string }[] }).webhooks.map(({ url }) => url)

function Urls({ item, isHeld, change, problems }: PartProps & { problems: readonly Problem[] }) {
  /** What was typed, by the URL that it replaces. */
  const typed = useSignal<Readonly<Record<string, string>>>({})
  const empty = useSignal<readonly Problem[]>([])
  const former = useRef(item)
  const form = useRef<HTMLFormElement>(null)
  const urls = urlsOf(item)
  useEffect(() => {
    typed.value = carriedOver(typed.value, urlsOf(former.current), urls)
    former.current = item
  }, [item])
  const byField = Object.fromEntries(
    (empty.value.length > 0 ? empty.value : problems).map(({ path, message }) => [path, [message]]),
  )
  const save = async (event: SubmitEvent) => {
    event.preventDefault()
    const webhooks = urls.map((url) => ({ url: (typed.value[url] ?? url).trim() }))
    empty.value = webhooks.flatMap(({ url }, i) =>
      url === '' ? [{ path: `webhooks[${i}].url`, message: 'A URL is needed.' }] : [],
    )
    const isChanged =
      empty.value.length === 0 &&
      (await change({ method: 'PATCH', body: { webhooks }, done: 'The URLs are changed.' }))
    if (isChanged) typed.value = {}
    const find = (what: string) => form.current?.querySelector<HTMLElement>(what)
    focusSoon(() => find('[aria-invalid=true]') ?? find('input'))
  }
  return (
    <form ref={form} onSubmit={(event) => void save(event)} aria-label="URLs" noValidate>
      <Mistakes.Provider value={byField}>
        {urls.map((url, i) => (
          <TextField
            path={`webhooks[${i}].url`}
            label={urls.length === 1 ? 'URL' : `URL ${i + 1}`}
            inputMode="url"
            hint={hintOf(url, typed.value[url])}
            value={typed.value[url] ?? url}
            onChange={(text) => {
              typed.value = { ...typed.value, [url]: text }
            }}
            key={i}
          />
        ))}
      </Mistakes.Provider>
      <div class="actions">
        <button type="submit" disabled={isHeld}>
          Change
        </button>
      </div>
    </form>
  )
}

function hintOf(url: string, typed: string | undefined): string | undefined {
  if (typed !== undefined && typed !== url) return `Now: ${url}`
  return url.endsWith(`?${HIDDEN}`) ? 'The query is not shown, and stays as it is.' : undefined
}

/** What was typed, by the URLs of a newer version. An endpoint whose URL is new is the one at the same place. */
function carriedOver(
  typed: Readonly<Record<string, string>>,
  before: readonly string[],
  after: readonly string[],
): Record<string, string> {
  return Object.fromEntries(
    Object.entries(typed).flatMap(([url, text]) => {
      const moved = before.length === after.length ? after[before.indexOf(url)] : undefined
      const at = after.includes(url) ? url : moved
      return at === undefined ? [] : [[at, text]]
    }),
  )
}

interface SecretProps extends PartProps {
  field: SecretField
  header: string
}

/** The rotation of one secret. The button that makes a secret stays where it is, so that no other takes its place. */
function Secret({ item, isHeld, change, field, header }: SecretProps) {
  const state = useRef<HTMLParagraphElement>(null)
  const question = useRef<HTMLParagraphElement>(null)
  const isEnding = useSignal(false)
  const many = item.secrets[field] ?? 0
  const key = `${item.name} ${field}`
  const secret = fresh.value[key]
  const forget = () => {
    fresh.value = Object.fromEntries(Object.entries(fresh.value).filter(([one]) => one !== key))
  }
  const make = async () => {
    const to = `/rotation?secret=${field}`
    // A new secret takes the focus itself.
    if (!(await change({ method: 'POST', to, done: 'There is a new secret.' }))) {
      focusSoon(() => state.current)
    }
  }
  const end = async (keep: 'new' | 'old') => {
    const to = `/rotation?secret=${field}&keep=${keep}`
    const done = `Only the ${keep} secret is valid now.`
    isEnding.value = false
    if ((await change({ method: 'DELETE', to, done })) && keep === 'old') forget()
    focusSoon(() => state.current)
  }
  // A destination is signed by a shared secret unless somebody has chosen otherwise.
  if (many === 0 && field === 'webhookSecret') return null
  return (
    <div class="secret">
      <h3>Secret for {header}</h3>
      <p ref={state} tabIndex={-1}>
        {many < 2
          ? `${many === 1 ? 'One' : 'No'} secret is valid.`
          : 'Two secrets are valid: the old one and the new one. Once your receiver knows the new one, end the rotation.'}
      </p>
      <div class="actions">
        <button type="button" disabled={isHeld || many > 1} onClick={() => void make()}>
          Make a new secret for {header}
        </button>
        {many > 1 && (
          <button
            type="button"
            disabled={isHeld}
            aria-expanded={isEnding.value}
            onClick={() => {
              isEnding.value = true
              focusSoon(() => question.current)
            }}
          >
            End the rotation for {header} …
          </button>
        )}
      </div>
      {many > 1 && isEnding.value && (
        <div class="preview" role="group" aria-label={`End the rotation for ${header}`}>
          <p ref={question} tabIndex={-1}>
            Which secret stays valid? The other one is revoked at once, for good.
            {secret !== undefined &&
              ' You have not said yet that you have stored the new one, which is shown below.'}
          </p>
          <div class="actions">
            {(['new', 'old'] as const).map((keep) => (
              <button
                type="button"
                class="danger"
                disabled={isHeld}
                onClick={() => void end(keep)}
                key={keep}
              >
                Keep only the {keep} secret
              </button>
            ))}
            <button
              type="button"
              onClick={() => {
                isEnding.value = false
                focusSoon(() => state.current)
              }}
            >
              Cancel
            </button>
          </div>
        </div>
      )}
      {secret !== undefined && (
        <FreshSecret
          header={header}
          secret={secret}
          onStored={() => {
            forget()
            focusSoon(() => state.current)
          }}
        />
      )}
    </div>
  )
}

interface FreshProps {
  header: string
  secret: string
  onStored: () => void
}

function FreshSecret({ header, secret, onStored }: FreshProps) {
  const heading = useRef<HTMLHeadingElement>(null)
  useEffect(() => {
    focusSoon(() => heading.current)
  }, [secret])
  return (
    <div class="preview fresh-secret">
      <h4 ref={heading} tabIndex={-1}>
        New secret for {header}
      </h4>
      <pre tabIndex={0} aria-label={`New secret for ${header}`}>
        {secret}
      </pre>
      <p>It is shown only now. Copy it to your receiver, or to your password store.</p>
      <div class="actions">
        <CopyButton text={secret} what={`new secret for ${header}`} />
        <button type="button" class="small" onClick={onStored}>
          I have stored it
        </button>
      </div>
    </div>
  )
}
