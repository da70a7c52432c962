import { signal, useSignal } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'
import { CopyButton } from './copy-button.js'
import { Failure, focusSoon } from './form.js'
import type { ManagedSetting, SettingChanged } from '../src/model/answers.js'
import { revoke, rotate, SECRETS, type Kind, type SecretWords } from './setting-kinds.js'
import { readStatus, toApiError, toast } from './state.js'

/** A secret that was generated a moment ago. It is only in the memory of this tab, and nowhere shown again. */
interface Fresh {
  kind: Kind
  name: string
  field: string
  value: string
}

const fresh = signal<Fresh | undefined>(undefined)

/** Remembers the secret of a change until it was seen. */
export function keepFresh({ item: { kind, name }, generated }: SettingChanged): void {
  const [first] = Object.entries(generated)
  if (first) fresh.value = { kind, name, field: first[0], value: first[1] }
}

export function forgetFresh(): void {
  fresh.value = undefined
}

/** A new secret, which is shown this one time. */
export function FreshSecret({ kind, name }: { kind: Kind; name: string }) {
  const heading = useRef<HTMLHeadingElement>(null)
  const shown = fresh.value?.kind === kind && fresh.value.name === name ? fresh.value : undefined
  useEffect(() => {
    if (shown) heading.current?.focus()
  }, [shown])
  const words = SECRETS[kind].find(({ field }) => field === shown?.field)
  if (!shown || !words) return null
  const title = `New ${words.label.toLowerCase()}`
  return (
    <section class="card fresh-secret" aria-labelledby="fresh-secret">
      <h2 id="fresh-secret" ref={heading} tabIndex={-1}>
        {title}
      </h2>
      <pre tabIndex={0} aria-label={title}>
        {shown.value}
      </pre>
      <p>
        <strong>It is shown only now.</strong> Copy it to where it is used, or to your password
        store.
      </p>
      <div class="actions">
        <CopyButton text={shown.value} what={words.label.toLowerCase()} label="Copy" />
        <button
          type="button"
          class="small"
          onClick={() => {
            forgetFresh()
            focusSoon(() => document.querySelector<HTMLElement>('main h1'))
          }}
        >
          I have stored it
        </button>
      </div>
    </section>
  )
}

interface SecretsProps {
  item: ManagedSetting
  isReadOnly: boolean
  onChanged: (item: ManagedSetting) => void
}

/** How many secrets are valid, and their rotation. */
export function SecretsCard({ item, isReadOnly, onChanged }: SecretsProps) {
  const words = SECRETS[item.kind]
  return (
    <section class="card" aria-labelledby="secrets">
      <h2 id="secrets">{words.length === 1 ? words[0]?.label : 'Secrets'}</h2>
      {words.map((secret) => (
        <Secret
          secret={secret}
          isAlone={words.length === 1}
          {...{ item, isReadOnly, onChanged }}
          key={secret.field}
        />
      ))}
    </section>
  )
}

function Secret({
  secret,
  isAlone,
  item,
  isReadOnly,
  onChanged,
}: SecretsProps & { secret: SecretWords; isAlone: boolean }) {
  const state = useRef<HTMLParagraphElement>(null)
  const failure = useSignal('')
  const isAsking = useSignal(false)
  const { kind, name } = item
  const { field, label, noun, use, change } = secret
  const many = item.secrets[field] ?? 0
  const run = async (ask: () => Promise<SettingChanged>, done: string) => {
    isAsking.value = true
    failure.value = ''
    try {
      const changed = await ask()
      forgetFresh()
      keepFresh(changed)
      onChanged(changed.item)
      toast.value = done
      // A new secret takes the focus itself.
      if (Object.keys(changed.generated).length === 0) focusSoon(() => state.current)
    } catch (error) {
      failure.value = toApiError(error).message
      await readStatus()
    }
    isAsking.value = false
  }
  const button = (words: string, ask: () => Promise<SettingChanged>, done: string) => (
    <button type="button" disabled={isAsking.value} onClick={() => void run(ask, done)}>
      {words}
    </button>
  )
  return (
    <div class="secret">
      {!isAlone && <h3>{label}</h3>}
      <p ref={state} tabIndex={-1}>
        {inWords(many, noun)}
      </p>
      <p class="hint">
        {use}
        {many === 2 && ` Once ${change}, end the rotation.`}
      </p>
      <Failure text={failure.value} />
      {!isReadOnly && (
        <div class="actions">
          {many < 2 &&
            button(
              many === 0
                ? `Generate a ${label.toLowerCase()}`
                : `Rotate the ${label.toLowerCase()}`,
              () => rotate(kind, name, field),
              many === 0 ? `There is a ${noun} now.` : `Both ${noun}s are valid now.`,
            )}
          {many === 2 && (
            <>
              {button(
                `Revoke the old ${noun}`,
                () => revoke(kind, name, field, 'new'),
                `Only the new ${noun} is valid now.`,
              )}
              {button(
                `Take back the new ${noun}`,
                () => revoke(kind, name, field, 'old'),
                `Only the old ${noun} is valid now.`,
              )}
            </>
          )}
        </div>
      )}
    </div>
  )
}

function inWords(many: number, noun: string): string {
  if (many === 0) return `There is no ${noun}.`
  return many === 1
    ? `One ${noun} is valid.`
    : `Two ${noun}s are valid: the old one and the new one.`
}
