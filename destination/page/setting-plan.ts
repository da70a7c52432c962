// What the form of a source, a destination or a tenant needs to know of it.
import type { ComponentType } from 'preact'
import type { Problem } from './api.js'
import type { Fields } from './setting-form.js'
import type { Kind } from './setting-kinds.js'

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
