import { useSignal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import { actor, get, keepActor, query } from './api.js'
import { clock, counted, exactly } from './format.js'
import { Failure } from './form.js'
import { isActorName, MAX_ACTOR } from '../src/model/actor.js'
import type { AuditEntry, AuditLog, SettingChange } from '../src/model/answers.js'
import { route } from './route.js'
import { hashOf } from './setting-kinds.js'
import { canWrite, now, toApiError } from './state.js'

/** How many entries one page has. */
const ROWS = 50

/** More changes than this are folded at first. */
const SHOWN = 3

const ACTIONS: Readonly<Record<AuditEntry['action'], string>> = {
  create: 'created',
  update: 'changed',
  delete: 'deleted',
  rotate: 'started a rotation of',
  revoke: 'ended a rotation of',
  pause: 'paused',
  resume: 'resumed',
}

/** Who changed what, and when, the newest first: all changes, or those of one source or destination. */
export function AuditView() {
  const { query: given, hash } = route.value
  const fields = Object.fromEntries(
    ['kind', 'name', 'before'].map((field) => [field, given.get(field) ?? '']),
  )
  const log = useSignal<AuditLog | undefined>(undefined)
  const failure = useSignal('')
  useEffect(() => {
    const controller = new AbortController()
    const { signal } = controller
    get<AuditLog>(`/audit${query({ ...fields, limit: ROWS })}`, signal).then(
      (answer) => {
        log.value = answer
        failure.value = ''
      },
      (error: unknown) => {
        if (!signal.aborted) failure.value = toApiError(error).message
      },
    )
    return () => {
      controller.abort()
    }
  }, [hash])
  const { kind, name, before } = fields
  const here = (changes: Record<string, string | number>) =>
    `#/settings/audit${query({ ...fields, ...changes })}`
  return (
    <>
      {canWrite.value && <ActorField />}
      {name !== '' && (
        <p class="chips bar">
          <a
            class="chip active"
            href="#/settings/audit"
            aria-label={`Remove the filter ${kind} ${name}`}
          >
            {kind} {name} <span aria-hidden="true">×</span>
          </a>
        </p>
      )}
      <Failure text={failure.value} />
      {log.value === undefined && failure.value === '' && <p aria-busy="true">Reading …</p>}
      {log.value && (
        <section class="card" aria-label="Changes">
          {log.value.entries.length === 0 && (
            <p class="empty">
              No change in the last 90 days. Changes of the settings file are not in this log.
            </p>
          )}
          <ol class="audit">
            {log.value.entries.map((entry) => (
              <Entry entry={entry} key={entry.id} />
            ))}
          </ol>
          {(log.value.next !== null || before !== '') && (
            <nav class="pages" aria-label="Pages of the audit log">
              {before !== '' && <a href={here({ before: '' })}>Newest</a>}
              {log.value.next !== null && <a href={here({ before: log.value.next })}>Older</a>}
            </nav>
          )}
        </section>
      )}
    </>
  )
}

/** The destination does not know who uses the admin token, so people can say it. */
function ActorField() {
  const typed = useSignal(actor.value)
  const isWrong = typed.value !== '' && !isActorName(typed.value)
  return (
    <>
      <label class="bar actor">
        <span>Your name, for what you change in this tab</span>
        <input
          value={typed.value}
          autocomplete="name"
          aria-invalid={isWrong}
          aria-describedby="wrong-actor"
          onInput={({ currentTarget }) => {
            const name = currentTarget.value.trim()
            typed.value = name
            // Changes are logged without a name rather than with another one.
            keepActor(isActorName(name) ? name : '')
          }}
        />
      </label>
      <p class="error" role="alert" id="wrong-actor" hidden={!isWrong}>
        {isWrong &&
          `The log can’t have this name. It takes up to ${MAX_ACTOR} characters, and none that is not seen.`}
      </p>
    </>
  )
}

function Entry({ entry }: { entry: AuditEntry }) {
  const { at, kind, name, action, by, from, changes } = entry
  const who = by ?? from ?? 'Somebody'
  return (
    <li data-row>
      <p>
        <time class="hint" title={exactly(at)}>
          {clock(at, now.peek())}
        </time>{' '}
        <strong>{who}</strong> {ACTIONS[action]} the {kind} <a href={hashOf(kind, name)}>{name}</a>
        {by !== null && from !== null && <span class="hint"> from {from}</span>}
      </p>
      {changes.length > SHOWN ? (
        <details>
          <summary>{counted(changes.length, 'value')}</summary>
          <Changes changes={changes} />
        </details>
      ) : (
        <Changes changes={changes} />
      )}
    </li>
  )
}

function Changes({ changes }: Pick<AuditEntry, 'changes'>) {
  if (changes.length === 0) return null
  return (
    <dl class="headers">
      {changes.map((change) => (
        <Change change={change} key={change.path} />
      ))}
    </dl>
  )
}

function Change({ change }: { change: SettingChange }) {
  const isNew = !('from' in change)
  const isGone = !('to' in change)
  return (
    <div>
      <dt>{change.path}</dt>
      <dd class="break">
        {!isNew && <del class="diff-old">{shown(change.from)}</del>}
        {!isNew && !isGone && ' → '}
        {!isGone && <ins class="diff-new">{shown(change.to)}</ins>}
      </dd>
    </div>
  )
}

const shown = (value: unknown): string =>
  typeof value === 'string' ? value : JSON.stringify(value)
