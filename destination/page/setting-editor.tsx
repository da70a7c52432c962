// The form of a source or a destination: to create it, and to change it.
import { useSignal } from '@preact/signals'
import type { ComponentType } from 'preact'
import { useEffect, useRef } from 'preact/hooks'
import type { Problem } from './api.js'
import { differences, newest, type Newest } from './change.js'
import { counted } from './format.js'
import { Choice, Failure, focusSoon, Mistakes, TextField } from './form.js'
import { JsonOrText } from './json-view.js'
import { useKept } from './leaving.js'
import type { ManagedSetting, SettingChanged } from '../src/model/answers.js'
import { NAME_RULE } from '../src/settings/name.js'
import { isSame, isSaved, placed, rebase, type Fields } from './setting-form.js'
import { PARTS, save, SECRETS, type Kind } from './setting-kinds.js'
import { readStatus, toApiError, toast } from './state.js'

/** What differs between sources and destinations. */
export interface Plan<Form> {
  kind: Kind
  empty: Form
  /** What a new one has that the form does not show. */
  initial: Fields
  formOf: (settings: Fields) => Form
  settingsOf: (form: Form, settings: Fields) => Fields
  fieldsOf: (form: Form) => ReadonlyMap<string, string>
  mistakesIn: (form: Form) => Problem[]
  Inputs: ComponentType<InputsProps<Form>>
}

export interface InputsProps<Form> {
  form: Form
  change: (changes: Partial<Form>) => void
  /** Shows the mistakes that were found in a part of the form before it is saved. */
  report: (part: string, problems: readonly Problem[]) => void
}

interface EditorProps<Form> {
  plan: Plan<Form>
  /** What is changed; `undefined` to create. */
  item: ManagedSetting | undefined
  isReadOnly: boolean
  /** `isSecretKnown`: whether the secret of a new item was not generated. */
  onSaved: (changed: SettingChanged, isSecretKnown: boolean) => void
  /** Shows a newer version of the item. */
  onNewer?: (item: ManagedSetting) => void
}

/** How a new source or destination gets its secret. */
type SecretChoice = 'generated' | 'given' | 'none'

export function Editor<Form extends { name: string }>(props: EditorProps<Form>) {
  const { plan, item, isReadOnly, onSaved, onNewer } = props
  const { kind, Inputs } = plan
  const [secret] = SECRETS[kind]
  const element = useRef<HTMLFormElement>(null)
  const before = useRef(item)
  const form = useSignal(item ? plan.formOf(item.settings) : plan.empty)
  const choice = useSignal<SecretChoice>('generated')
  const given = useSignal('')
  const wrong = useSignal<readonly Problem[]>([])
  const failure = useSignal('')
  const isSaving = useSignal(false)
  const newer = useSignal<Newest | undefined>(undefined)
  /** The parts that the form keeps as they were typed, although the version that is shown has others. */
  const clashes = useSignal<readonly (keyof Form)[]>([])
  const base = before.current ? plan.formOf(before.current.settings) : plan.empty
  useKept(isSame(form.value, base) && given.value === '' ? '' : 'what you typed')

  useEffect(() => {
    const former = before.current
    if (item === undefined || former === undefined || item === former) return
    const theirs = plan.formOf(item.settings)
    const joined = rebase(plan.formOf(former.settings), form.value, theirs)
    form.value = joined.form
    clashes.value = Array.from(new Set([...clashes.value, ...joined.clashes]))
    before.current = item
  }, [item])

  const refuse = (problems: readonly Problem[]) => {
    wrong.value = problems
    const { others } = placed(problems, plan.fieldsOf(form.value))
    failure.value = `Not saved: there ${problems.length === 1 ? 'is' : 'are'} ${counted(problems.length, 'mistake')}.${others.map(({ path, message }) => ` ${path}: ${message}`).join('')}`
    focusSoon(() => element.current?.querySelector<HTMLElement>('[aria-invalid=true]'))
  }

  /** @param sent - The form that was saved. What was typed since then stays. */
  const saved = (changed: SettingChanged, sent: Form) => {
    newer.value = undefined
    before.current = changed.item
    form.value = rebase(sent, form.value, plan.formOf(changed.item.settings)).form
    toast.value = changed.changed ? `${changed.item.name} is saved.` : 'Nothing has changed.'
    onSaved(changed, choice.value !== 'generated')
  }

  const fail = async (error: unknown, sent: Form) => {
    const { code, message, details } = toApiError(error)
    if (details.problems) refuse(details.problems)
    else if (code === 'version_mismatch' && item) {
      const show = (found: Newest) => {
        const { item: there, isByOther } = found
        const wanted = plan.settingsOf(sent, item.settings)
        // The answer to an earlier “Save” may have been lost, or the browser has repeated this one.
        const isAsWanted = there && isSaved(plan.formOf, wanted, there.settings, isByOther)
        if (isAsWanted) saved({ item: there, changed: true, created: false, generated: {} }, sent)
        else newer.value = found
      }
      await newest(kind, item.name).then(show, (other: unknown) => fail(other, sent))
    } else if (!item && (code === 'version_mismatch' || code === 'in_settings_file')) {
      refuse([{ path: 'name', message: `there is a ${kind} of this name already.` }])
    } else {
      failure.value =
        code === 'unreachable'
          ? `${message} It may have done it. Press the button again once it answers: nothing is made twice.`
          : message
      // If the token is no longer right, this asks for it.
      await readStatus()
    }
  }

  const isGone = newer.value !== undefined && newer.value.item === undefined
  const submit = async () => {
    const mistakes = plan.mistakesIn(form.value)
    const name = form.value.name.trim()
    if (name === '') mistakes.push({ path: 'name', message: 'a name is needed.' })
    // A browser takes these out of a path, so that the request would go elsewhere.
    if (name === '.' || name === '..') {
      const message = NAME_RULE.replace('{got}', JSON.stringify(name))
      mistakes.push({ path: 'name', message })
    }
    if (mistakes.length > 0) {
      refuse(mistakes)
      return
    }
    isSaving.value = true
    failure.value = ''
    wrong.value = []
    // Once it is known to be deleted, each further try creates it again.
    if (!isGone) newer.value = undefined
    clashes.value = []
    const sent = form.value
    try {
      const secrets = item ? {} : secretOf(secret?.field ?? '', choice.value, given.value)
      const settings = { ...(item?.settings ?? plan.initial), ...secrets }
      const version = isGone ? null : (item?.version ?? null)
      const body = plan.settingsOf(sent, settings)
      const changed = await save(kind, name, body, version)
      saved(changed, sent)
    } catch (error) {
      await fail(error, sent)
    }
    isSaving.value = false
  }

  const { byField } = placed(wrong.value, plan.fieldsOf(form.value))
  return (
    <form
      ref={element}
      class="form"
      aria-label={item ? `Settings of ${item.name}` : `New ${kind}`}
      noValidate
      onSubmit={(event) => {
        event.preventDefault()
        void submit()
      }}
    >
      {newer.value !== undefined && item && (
        <Newer
          plan={plan}
          form={form.value}
          before={item}
          newer={newer.value}
          onLoad={(loaded) => {
            newer.value = undefined
            failure.value = ''
            toast.value = 'The new version is loaded. Check it, and save.'
            onNewer?.(loaded)
          }}
        />
      )}
      {item && newer.value === undefined && clashes.value.length > 0 && (
        <div class="sentence warn notice" role="alert">
          <Clashes {...{ plan, item }} names={clashes.value} />
        </div>
      )}
      <Failure text={failure.value} />
      {/* Another view follows once it is created, which would not have what is typed meanwhile. */}
      <fieldset class="plain" disabled={isReadOnly || (item === undefined && isSaving.value)}>
        <Mistakes.Provider value={byField}>
          {item === undefined && (
            <TextField
              path="name"
              label="Name"
              hint="1 to 64 letters, digits, - and _. It can’t be changed later."
              value={form.value.name}
              onChange={(name) => {
                form.value = { ...form.value, name }
              }}
            />
          )}
          <Inputs
            form={form.value}
            change={(changes) => {
              form.value = { ...form.value, ...changes }
            }}
            report={(part, problems) => {
              const others = wrong.value.filter(({ path }) => !path.startsWith(part))
              if (!isSame([...others, ...problems], wrong.value))
                wrong.value = [...others, ...problems]
            }}
          />
          {item === undefined && secret && (
            <>
              <Choice<SecretChoice>
                legend={secret.label}
                options={[
                  ['generated', 'generate one'],
                  ['given', `use this ${secret.noun}`],
                  ...(secret.isNeeded ? [] : ([['none', 'none: no X-Signature']] as const)),
                ]}
                value={choice.value}
                onChange={(value) => {
                  choice.value = value
                }}
              />
              {choice.value === 'given' && (
                <TextField
                  path={secret.field}
                  label={`${secret.label} to use`}
                  value={given.value}
                  onChange={(value) => {
                    given.value = value
                  }}
                />
              )}
            </>
          )}
        </Mistakes.Provider>
        {!isReadOnly && (
          <div class="actions">
            <button type="submit" class="primary" disabled={isSaving.value}>
              {item === undefined || isGone ? 'Create' : 'Save'}
            </button>
          </div>
        )}
      </fieldset>
    </form>
  )
}

function secretOf(field: string, choice: SecretChoice, given: string): Fields {
  if (choice === 'generated') return {}
  return { [field]: choice === 'none' ? null : given }
}

interface NewerProps<Form> {
  plan: Plan<Form>
  form: Form
  before: ManagedSetting
  newer: Newest
  onLoad: (newer: ManagedSetting) => void
}

/** Says that somebody else was faster, and what that means for what was typed. */
function Newer<Form extends { name: string }>({
  plan,
  form,
  before,
  newer,
  onLoad,
}: NewerProps<Form>) {
  const { item, news } = newer
  const notice = useRef<HTMLDivElement>(null)
  useEffect(() => {
    notice.current?.focus()
  }, [newer])
  if (item === undefined) {
    return (
      <div class="sentence warn notice" role="alert" ref={notice} tabIndex={-1}>
        <p>{news} What you typed is still here, and “Create” creates it again, with new secrets.</p>
      </div>
    )
  }
  const theirs = plan.formOf(item.settings)
  const { clashes } = rebase(plan.formOf(before.settings), form, theirs)
  return (
    <div class="sentence warn notice" role="alert" ref={notice} tabIndex={-1}>
      <p>{news} Nothing is saved, and what you typed is still here.</p>
      {isSame(form, theirs) ? (
        <p>The form has what is saved.</p>
      ) : (
        <p>{differences(before, item, clashes.map(String))}</p>
      )}
      <Clashes {...{ plan, item }} names={clashes} />
      <div class="actions">
        <button
          type="button"
          onClick={() => {
            onLoad(item)
          }}
        >
          Load the new version, and keep what I typed
        </button>
      </div>
    </div>
  )
}

interface ClashesProps<Form> {
  plan: Plan<Form>
  /** What somebody else has saved. */
  item: ManagedSetting
  names: readonly (keyof Form)[]
}

/** The parts that two people have changed. */
function Clashes<Form>({ plan, item, names }: ClashesProps<Form>) {
  const theirs = plan.formOf(item.settings)
  return (
    <>
      {names.map((name) => {
        const part = PARTS[String(name)] ?? String(name)
        return (
          <div key={String(name)}>
            <p>{part}: you both changed this. The form keeps yours. Theirs is:</p>
            <JsonOrText
              text={JSON.stringify(partOf(plan, theirs, item, name), null, 2)}
              label={`${part} of somebody else`}
            />
          </div>
        )
      })}
    </>
  )
}

/** A part of the settings in the form of the settings file, which is shorter than that of the form. */
function partOf<Form>(
  plan: Plan<Form>,
  form: Form,
  { settings }: ManagedSetting,
  name: keyof Form,
): unknown {
  return plan.settingsOf(form, settings)[String(name)] ?? null
}
