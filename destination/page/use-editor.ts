// What the form of a source or a destination has in it, and how it is saved.
import { useSignal } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'
import type { ManagedSetting, SettingChanged } from '../src/model/answers.js'
import { NAME_RULE } from '../src/settings/name.js'
import type { Problem } from './api.js'
import { newest, type Newest } from './change.js'
import { focusSoon } from './form.js'
import { counted } from './format.js'
import { useKept } from './leaving.js'
import { isSame, isSaved, placed, rebase, type Fields } from './setting-form.js'
import { save, SECRETS } from './setting-kinds.js'
import type { Plan } from './setting-plan.js'
import { readStatus, toApiError, toast } from './state.js'

export interface EditorParts<Form> {
  plan: Plan<Form>
  /** What is changed; `undefined` to create. */
  item: ManagedSetting | undefined
  /** `isSecretKnown`: whether the secret of a new item was not generated. */
  onSaved: (changed: SettingChanged, isSecretKnown: boolean) => void
  /** Shows a newer version of the item. */
  onNewer?: (item: ManagedSetting) => void
}

/** How a new source or destination gets its secret. */
export type SecretChoice = 'generated' | 'given' | 'none'

/** The state of the form, for its view. */
export function useEditor<Form extends { name: string }>(parts: EditorParts<Form>) {
  const { plan, item, onSaved, onNewer } = parts
  const { kind } = plan
  const element = useRef<HTMLFormElement>(null)
  const before = useRef(item)
  const form = useSignal(item ? plan.formOf(item.settings) : plan.empty)
  const choice = useSignal<SecretChoice>('generated')
  const given = useSignal('')
  const wrong = useSignal<readonly Problem[]>([])
  const failure = useSignal('')
  const isSaving = useSignal(false)
  const newer = useSignal<Newest | undefined>(undefined)
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
      const secrets = item ? {} : secretOf(SECRETS[kind][0]?.field ?? '', choice.value, given.value)
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

  return {
    element,
    form,
    choice,
    given,
    failure,
    isSaving,
    newer,
    /** The parts that the form keeps as they were typed, although the version that is shown has others. */
    clashes,
    /** Whether what is changed was deleted meanwhile, so that it would be created again. */
    isGone,
    /** The mistakes at their fields. */
    mistakes: placed(wrong.value, plan.fieldsOf(form.value)).byField,
    submit,
    change: (changes: Partial<Form>) => {
      form.value = { ...form.value, ...changes }
    },
    report: (part: string, problems: readonly Problem[]) => {
      const others = wrong.value.filter(({ path }) => !path.startsWith(part))
      if (!isSame([...others, ...problems], wrong.value)) wrong.value = [...others, ...problems]
    },
    load: (loaded: ManagedSetting) => {
      newer.value = undefined
      failure.value = ''
      toast.value = 'The new version is loaded. Check it, and save.'
      onNewer?.(loaded)
    },
  }
}

function secretOf(field: string, choice: SecretChoice, given: string): Fields {
  if (choice === 'generated') return {}
  return { [field]: choice === 'none' ? null : given }
}
