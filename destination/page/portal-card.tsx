// What a tenant may change of its destination: the URLs if it may, and the secrets.
import { useSignal } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'
import { token, type Problem } from './api.js'
import { changedIn, useChange } from './change.js'
import { Failure, focusSoon, Mistakes, TextField } from './form.js'
import { useKept } from './leaving.js'
import type { ManagedSetting } from '../src/model/answers.js'
import { HIDDEN } from '../src/model/hidden.js'
import { tenant } from './portal-state.js'
import { forgetFresh, FreshSecrets, SecretsCard } from './secrets-card.js'
import { isSame } from './setting-form.js'
import { patch, read } from './setting-kinds.js'
import { toApiError, toast } from './state.js'
import { useRead } from './use-read.js'

/** The paths of the mistakes that stand at a field. */
const URL_PATH = /^webhooks\[\d+\]\.url$/

export function PortalCard({ name }: { name: string }) {
  const { found, failure } = useRead(
    (abort) => read('destination', name, abort),
    [name, token.value],
  )
  useEffect(() => forgetFresh, [])
  const item = found.value
  if (item === undefined) return <Failure text={failure.value} />
  if (item.origin === 'file') {
    return (
      <section class="card" aria-labelledby="own-settings">
        <h2 id="own-settings">Settings</h2>
        <p class="hint">Only the operator can change this destination.</p>
      </section>
    )
  }
  const change = (changed: ManagedSetting) => {
    found.value = changed
  }
  return (
    <>
      <FreshSecrets kind="destination" name={name} />
      {tenant.value?.mayEditUrls === true && <UrlsCard item={item} onChanged={change} />}
      <SecretsCard item={item} isReadOnly={false} onChanged={change} />
    </>
  )
}

const urlsOf = ({ settings }: ManagedSetting): string[] =>
  (settings as { webhooks: { url: string }[] }).webhooks.map(({ url }) => url)

interface UrlsProps {
  item: ManagedSetting
  onChanged: (item: ManagedSetting) => void
}

function UrlsCard({ item, onChanged }: UrlsProps) {
  const { failure, isAsking, change } = useChange(item, onChanged)
  /** What was typed, by the URL that it replaces. */
  const typed = useSignal<Readonly<Record<string, string>>>({})
  /** What was typed for URLs that the destination no longer has. */
  const gone = useSignal<readonly [url: string, text: string][]>([])
  const problems = useSignal<readonly Problem[]>([])
  const former = useRef(item)
  const form = useRef<HTMLFormElement>(null)
  const urls = urlsOf(item)
  const isTyped = Object.entries(typed.value).some(([url, text]) => text !== url)
  useKept(isTyped ? 'the URLs that you typed' : '')
  useEffect(() => {
    const before = typed.value
    typed.value = carriedOver(before, urlsOf(former.current), urls)
    const lost = Object.entries(before).filter(([url]) => !urls.includes(url))
    if (Object.keys(typed.value).length < Object.keys(before).length) gone.value = lost
    former.current = item
  }, [item])
  const done = () => {
    typed.value = {}
    gone.value = []
    toast.value = 'The URLs are changed.'
  }
  const save = async (webhooks: { url: string }[]) => {
    try {
      const changed = await patch(item, { webhooks })
      done()
      onChanged(changed.item)
    } catch (error) {
      const { details } = toApiError(error)
      if (!details.problems) throw error
      problems.value = details.problems
    }
  }
  const submit = async (event: SubmitEvent) => {
    event.preventDefault()
    const webhooks = urls.map((url) => ({ url: (typed.value[url] ?? url).trim() }))
    problems.value = webhooks.flatMap(({ url }, i) =>
      url === '' ? [{ path: `webhooks[${i}].url`, message: 'A URL is needed.' }] : [],
    )
    const wanted = webhooks.map(({ url }) => url)
    const isDone = (there: ManagedSetting | undefined) =>
      there !== undefined &&
      isSame(changedIn(item, there), ['webhooks']) &&
      isSame(urlsOf(there), wanted)
    if (problems.value.length === 0) await change(() => save(webhooks), { isDone, done })
    const find = (what: string) => form.current?.querySelector<HTMLElement>(what)
    focusSoon(() => find('[aria-invalid=true]') ?? find('input'))
  }
  const byField = Object.fromEntries(problems.value.map(({ path, message }) => [path, [message]]))
  return (
    <section class="card" aria-labelledby="urls">
      <h2 id="urls">{urls.length === 1 ? 'URL' : 'URLs'}</h2>
      <form
        ref={form}
        class="form"
        onSubmit={(event) => void submit(event)}
        aria-labelledby="urls"
        noValidate
      >
        <Failure text={failure.value || refusal(problems.value)} />
        {gone.value.map(([url, text]) => (
          <p class="hint break" key={url}>
            You typed {text} in place of {url}, which this destination no longer has.
          </p>
        ))}
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
          <button type="submit" disabled={isAsking.value}>
            Change
          </button>
        </div>
      </form>
    </section>
  )
}

/** The mistakes that stand at no field. */
function refusal(problems: readonly Problem[]): string {
  if (problems.length === 0) return ''
  const others = problems.filter(({ path }) => !URL_PATH.test(path))
  return ['Nothing is changed.', ...others.map(({ message }) => message)].join(' ')
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
