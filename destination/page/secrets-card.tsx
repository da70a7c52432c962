import { signal, useSignal } from '@preact/signals'
import { useEffect, useId, useLayoutEffect, useRef } from 'preact/hooks'
import { changedIn, useChange } from './change.js'
import { CopyButton } from './copy-button.js'
import { Confirm } from './dialog.js'
import { Failure, focusSoon, single } from './form.js'
import { useKept } from './leaving.js'
import type { ManagedSetting, SettingChanged } from '../src/model/answers.js'
import { isPortal } from './portal.js'
import { isSame } from './setting-form.js'
import { revoke, rotate, SECRETS, type Kind, type SecretWords } from './setting-kinds.js'
import { toast } from './state.js'

/** A secret that was generated a moment ago. It is only in the memory of this tab, and nowhere shown again. */
interface Fresh {
  kind: Kind
  name: string
  field: string
  /** `undefined` if the answer that had it was lost. */
  value: string | undefined
  /** How many secrets of this field were valid with it, as far as is known: 2 after a rotation. */
  among: number
}

const fresh = signal<readonly Fresh[]>([])

const isOf =
  ({ kind, name }: Pick<Fresh, 'kind' | 'name'>, field?: string) =>
  (one: Fresh) =>
    one.kind === kind && one.name === name && (field === undefined || one.field === field)

/** Which one of a rotation it is. The old one may have been generated a moment ago too, and the answer with the new one lost. */
const roleOf = ({ field, among }: Fresh, { secrets }: ManagedSetting): 'new' | 'old' =>
  among < (secrets[field] ?? 0) ? 'old' : 'new'

/** Remembers the secrets of a change until each of them is stored. One of a change before stays beside them. */
export function keepFresh({ item, created, generated }: SettingChanged): void {
  const { kind, name, secrets } = item
  const added = Object.entries(generated).map(([field, value]): Fresh => {
    return { kind, name, field, value, among: secrets[field] ?? 1 }
  })
  const isOver = (one: Fresh) =>
    isOf(item)(one) && (created || (one.value === undefined && one.field in generated))
  fresh.value = [...fresh.value.filter((one) => !isOver(one)), ...added]
}

/** Remembers that it was generated for a request whose answer was lost. */
export function keepLost({ kind, name }: ManagedSetting): void {
  const [secret] = SECRETS[kind]
  if (!secret) return
  fresh.value = [...fresh.value, { kind, name, field: secret.field, value: undefined, among: 1 }]
}

export function forgetFresh(): void {
  fresh.value = []
}

/** The new secrets, which are shown this one time, until each of them is stored. */
export function FreshSecrets({ item }: { item: ManagedSetting }) {
  const { kind, secrets } = item
  const shown = fresh.value.filter(isOf(item))
  const words = (one: Fresh) => SECRETS[kind].find(({ field }) => field === one.field)
  const labels = shown.flatMap((one) =>
    one.value === undefined
      ? []
      : `the ${roleOf(one, item)} ${words(one)?.label.toLowerCase() ?? one.field}`,
  )
  useKept(labels.length === 0 ? '' : `${labels.join(' and ')}, which is not shown again`)
  // Once a rotation has ended, the one that is left becomes the old one of the next.
  useLayoutEffect(() => {
    const settled = (one: Fresh) => ({
      ...one,
      among: Math.min(one.among, secrets[one.field] ?? 0),
    })
    fresh.value = fresh.peek().map((one) => (isOf(item)(one) ? settled(one) : one))
  }, [item])
  return (
    <>
      {shown.map((one) => {
        const found = words(one)
        if (!found) return null
        const role = roleOf(one, item)
        return <FreshSecret {...{ one, role }} words={found} key={one.field + (one.value ?? '')} />
      })}
    </>
  )
}

interface FreshProps {
  one: Fresh
  role: 'new' | 'old'
  words: SecretWords
}

function FreshSecret({ one, role, words }: FreshProps) {
  const heading = useRef<HTMLHeadingElement>(null)
  const id = useId()
  const { kind, value } = one
  const label = words.label.toLowerCase()
  useEffect(() => {
    heading.current?.focus()
  }, [])
  const known = role === 'new' ? `New ${label}` : `Old ${label}`
  const title = value === undefined ? `The ${label} was not shown` : known
  return (
    <section class="card fresh-secret" aria-labelledby={id}>
      <h2 id={id} ref={heading} tabIndex={-1}>
        {title}
      </h2>
      {value === undefined ? (
        <p>
          There was this {kind} already, with the same settings: the answer to an earlier “Create”
          was lost, or somebody else has created it. If nobody has its {label}, rotate it, and
          revoke the old {words.noun}.
        </p>
      ) : (
        <>
          <pre tabIndex={0} aria-label={title}>
            {value}
          </pre>
          <p>
            <strong>It is shown only now.</strong> Copy it to where it is used, or to your password
            store.
            {role === 'old' && ' There is a newer one: this one is valid until you revoke it.'}
          </p>
        </>
      )}
      <div class="actions">
        {value !== undefined && (
          <CopyButton text={value} what={role === 'new' ? label : `old ${label}`} label="Copy" />
        )}
        <button
          type="button"
          class="small"
          onClick={() => {
            fresh.value = fresh.value.filter((other) => other !== one)
            focusSoon(() => document.querySelector<HTMLElement>('main h1'))
          }}
        >
          {value === undefined ? 'Understood' : 'I have stored it'}
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
  const words = SECRETS[item.kind].filter(
    // Whether a tenant's destination has a second signature is decided by the operator.
    ({ field }) => !isPortal || field === 'sharedSecret' || (item.secrets[field] ?? 0) > 0,
  )
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
  const { failure, isAsking, change } = useChange(item, onChanged)
  const ending = useSignal<'new' | 'old' | undefined>(undefined)
  const { field, label, noun, use, change: when } = secret
  const many = item.secrets[field] ?? 0
  const isDone = (there: ManagedSetting | undefined) =>
    there !== undefined && isSame(changedIn(item, there), [field])
  const make = () =>
    change(
      async () => {
        const changed = await rotate(item, field)
        keepFresh(changed)
        onChanged(changed.item)
        toast.value = many === 0 ? `There is a ${noun} now.` : `Both ${noun}s are valid now.`
      },
      {
        isDone,
        unknown: `A ${noun} that was generated is lost with it: take it back, or rotate it again.`,
      },
    )
  const isFresh = (role: 'new' | 'old') => (one: Fresh) =>
    isOf(item, field)(one) && roleOf(one, item) === role
  const end = (keep: 'new' | 'old') => {
    ending.value = undefined
    const done = () => {
      fresh.value = fresh.value.filter((one) => !isFresh(keep === 'new' ? 'old' : 'new')(one))
      toast.value = `Only the ${keep} ${noun} is valid now.`
      focusSoon(() => state.current)
    }
    return change(
      async () => {
        onChanged((await revoke(item, field, keep)).item)
        done()
      },
      { isDone, done, unknown: `Check which ${noun} is valid.` },
    )
  }
  const gone = ending.value === 'new' ? 'old' : 'new'
  const isUnstored = fresh.value.some(
    (one) => ending.value !== undefined && isFresh(ending.value)(one) && one.value !== undefined,
  )
  return (
    <div class="secret">
      {!isAlone && <h3>{label}</h3>}
      <p ref={state} tabIndex={-1}>
        {inWords(many, noun)}
      </p>
      <p class="hint">
        {use}
        {many === 2 && ` Once ${when}, end the rotation.`}
      </p>
      <Failure text={failure.value} />
      {!isReadOnly && (
        <div class="actions">
          {/* It stays where it is, so that nothing takes its place. */}
          <button
            type="button"
            disabled={isAsking.value || many === 2}
            onClick={single(() => void make())}
          >
            {many === 0 ? 'Generate a' : 'Rotate the'} {label.toLowerCase()}
          </button>
          {many === 2 &&
            (['new', 'old'] as const).map((keep) => (
              <button
                type="button"
                disabled={isAsking.value}
                onClick={() => {
                  ending.value = keep
                }}
                key={keep}
              >
                {keep === 'new' ? 'Revoke the old' : 'Take back the new'} {noun} …
              </button>
            ))}
        </div>
      )}
      {ending.value && (
        <Confirm
          title={`${gone === 'old' ? 'Revoke the old' : 'Take back the new'} ${noun} of ${item.name}?`}
          yes={gone === 'old' ? `Revoke the old ${noun}` : `Take back the new ${noun}`}
          onYes={() => void end(ending.value ?? 'new')}
          onNo={() => {
            ending.value = undefined
          }}
        >
          <p>
            From then on, only the {ending.value} {noun} is valid. {secret.cost(gone)} It can’t be
            undone.
            {isUnstored && ` You have not said yet that you have stored the ${ending.value} one.`}
          </p>
        </Confirm>
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
