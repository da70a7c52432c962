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
      <FreshSecrets item={item} />
      {tenant.value?.mayEditUrls === true && <UrlsCard item={item} onChanged={change} />}
      <SecretsCard item={item} isReadOnly={false} onChanged={change} />
    </>
  )
}

const urlsOf = ({ settings }: ManagedSetting): string[] =>
  (settings as { webhooks: { url: string }[] }).webhooks.map(({ url }) => url)

/** What was typed, by the place of the endpoint: several may have the same URL as far as it is shown. */
type Typed = Readonly<Record<number, string>>

interface UrlsProps {
  item: ManagedSetting
  onChanged: (item: ManagedSetting) => void
}

function UrlsCard({ item, onChanged }: UrlsProps) {
  const { failure, isAsking, change } = useChange(item, onChanged)
  const typed = useSignal<Typed>({})
  /** What was typed for URLs that the destination no longer has. */
  const gone = useSignal<readonly [url: string, text: string][]>([])
  const problems = useSignal<readonly Problem[]>([])
  const former = useRef(item)
  const form = useRef<HTMLFormElement>(null)
  const urls = urlsOf(item)
  const isTyped = Object.entries(typed.value).some(([i, text]) => text !== urls[Number(i)])
  useKept(isTyped ? 'the URLs that you typed' : '')
  useEffect(() => {
    const { carried, lost } = carriedOver(typed.value, urlsOf(former.current), urls)
    typed.value = carried
    if (lost.length > 0) gone.value = lost
    former.current = item
  }, [item])
  /** @param sent - What was typed for the change. What was typed since then stays. */
  const done = (sent: Typed) => {
    const since = Object.entries(typed.value).filter(([i, text]) => text !== sent[Number(i)])
    typed.value = Object.fromEntries(since)
    gone.value = []
    toast.value = 'The URLs are changed.'
  }
  const save = async (webhooks: { url: string }[], sent: Typed) => {
    try {
      const changed = await patch(item, { webhooks })
      former.current = changed.item // the places are the same
      done(sent)
      onChanged(changed.item)
    } catch (error) {
      const { details } = toApiError(error)
      if (!details.problems) throw error
      problems.value = details.problems
    }
  }
  const submit = async (event: SubmitEvent) => {
    event.preventDefault()
    const sent = typed.value
    const webhooks = urls.map((url, i) => ({ url: (sent[i] ?? url).trim() }))
    problems.value = webhooks.flatMap(({ url }, i) =>
      url === '' ? [{ path: `webhooks[${i}].url`, message: 'A URL is needed.' }] : [],
    )
    const wanted = webhooks.map(({ url }) => url)
    const isDone = (there: ManagedSetting | undefined) =>
      there !== undefined &&
      isSame(changedIn(item, there), ['webhooks']) &&
      isSame(urlsOf(there), wanted)
    if (problems.value.length === 0) {
      const wish = {
        isDone,
        done: () => {
          done(sent)
        },
      }
      await change(() => save(webhooks, sent), wish)
    }
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
              hint={hintOf(url, typed.value[i])}
              value={typed.value[i] ?? url}
              onChange={(text) => {
                typed.value = { ...typed.value, [i]: text }
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

/** What was typed, by the places of a newer version, and what was typed for URLs that it does not have. */
function carriedOver(typed: Typed, before: readonly string[], after: readonly string[]) {
  const carried: Record<number, string> = {}
  const lost: [url: string, text: string][] = []
  for (const [i, text] of Object.entries(typed)) {
    const place = placeIn(after, before, Number(i))
    if (place === undefined) lost.push([before[Number(i)] ?? '', text])
    else carried[place] = text
  }
  return { carried, lost }
}

/** Where an endpoint is in a newer version. One whose URL is new is at the same place. Endpoints with the same URL keep their order. */
function placeIn(after: readonly string[], before: readonly string[], i: number) {
  const isUrl = (url: string) => url === before[i]
  const places = Array.from(after.keys()).filter((place) => after[place] === before[i])
  if (places.length === 0) return before.length === after.length ? i : undefined
  const isKnown = places.length === before.filter(isUrl).length
  return isKnown ? places[before.slice(0, i).filter(isUrl).length] : undefined
}
