// The form of a source or a destination: to create it, and to change it.
import { useEffect, useRef } from 'preact/hooks'
import { differences, type Newest } from './change.js'
import { Choice, Failure, Mistakes, TextField } from './form.js'
import { JsonOrText } from './json-view.js'
import type { ManagedSetting } from '../src/model/answers.js'
import { isSame, rebase } from './setting-form.js'
import { PARTS, SECRETS } from './setting-kinds.js'
import type { Plan } from './setting-plan.js'
import { useEditor, type EditorParts, type SecretChoice } from './use-editor.js'

interface EditorProps<Form> extends EditorParts<Form> {
  isReadOnly: boolean
}

export function Editor<Form extends { name: string }>({ isReadOnly, ...parts }: EditorProps<Form>) {
  const { plan, item } = parts
  const { kind, Inputs } = plan
  const [secret] = SECRETS[kind]
  const editor = useEditor(parts)
  const { form, choice, given, isSaving, newer, clashes, isGone } = editor
  return (
    <form
      ref={editor.element}
      class="form"
      aria-label={item ? `Settings of ${item.name}` : `New ${kind}`}
      noValidate
      onSubmit={(event) => {
        event.preventDefault()
        void editor.submit()
      }}
    >
      {newer.value !== undefined && item && (
        <Newer
          plan={plan}
          form={form.value}
          before={item}
          newer={newer.value}
          onLoad={editor.load}
        />
      )}
      {item && newer.value === undefined && clashes.value.length > 0 && (
        <div class="sentence warn notice" role="alert">
          <Clashes {...{ plan, item }} names={clashes.value} />
        </div>
      )}
      <Failure text={editor.failure.value} />
      {/* Another view follows once it is created, which would not have what is typed meanwhile. */}
      <fieldset class="plain" disabled={isReadOnly || (item === undefined && isSaving.value)}>
        <Mistakes.Provider value={editor.mistakes}>
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
          <Inputs form={form.value} change={editor.change} report={editor.report} />
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
