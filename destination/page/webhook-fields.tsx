import { useRef } from 'preact/hooks'
import { focusSoon, Group, TextField, Wrong } from './form.js'
import { HIDDEN } from '../src/model/hidden.js'
import {
  headerField,
  NO_WEBHOOK,
  stays,
  valueField,
  type HeaderForm,
  type WebhookForm,
} from './setting-form.js'

/** A destination has at most so many endpoints. */
const MOST_WEBHOOKS = 5

interface WebhooksProps {
  webhooks: readonly WebhookForm[]
  onChange: (webhooks: readonly WebhookForm[]) => void
}

/** The endpoints of a destination. Each call is sent to all of them. */
export function WebhookFields({ webhooks, onChange }: WebhooksProps) {
  const heading = useRef<HTMLHeadingElement>(null)
  return (
    <section aria-labelledby="endpoints">
      <h3 id="endpoints" ref={heading} tabIndex={-1}>
        Endpoints
      </h3>
      <Wrong path="webhooks" />
      {webhooks.map((webhook, index) => (
        <Webhook
          webhook={webhook}
          index={index}
          title={webhooks.length === 1 ? 'Endpoint' : `Endpoint ${index + 1}`}
          onChange={(changes) => {
            onChange(webhooks.with(index, { ...webhook, ...changes }))
          }}
          onRemove={
            webhooks.length === 1
              ? undefined
              : () => {
                  onChange(webhooks.toSpliced(index, 1))
                  focusSoon(() => heading.current)
                }
          }
          key={index}
        />
      ))}
      {webhooks.length < MOST_WEBHOOKS && (
        <button
          type="button"
          onClick={() => {
            onChange([...webhooks, NO_WEBHOOK])
          }}
        >
          Add another endpoint
        </button>
      )}
    </section>
  )
}

interface WebhookProps {
  webhook: WebhookForm
  index: number
  title: string
  onChange: (changes: Partial<WebhookForm>) => void
  onRemove: (() => void) | undefined
}

function Webhook({ webhook, index, title, onChange, onRemove }: WebhookProps) {
  const path = `webhooks[${index}]`
  const add = useRef<HTMLButtonElement>(null)
  const { url, headers, concurrency, requestsPerSecond } = webhook
  return (
    <Group path={path} legend={title}>
      <TextField
        path={`${path}.url`}
        label="URL"
        inputMode="url"
        placeholder="https://example.com/hook"
        hint={
          url.endsWith(`?${HIDDEN}`) ? 'The query is not shown, and stays as it is.' : undefined
        }
        value={url}
        onChange={(changed) => {
          onChange({ url: changed })
        }}
      />
      <div class="columns">
        <TextField
          path={`${path}.concurrency`}
          label="Concurrency"
          hint="The most requests at once: 1 to 1,000."
          inputMode="numeric"
          value={concurrency}
          onChange={(changed) => {
            onChange({ concurrency: changed })
          }}
        />
        <TextField
          path={`${path}.rateLimit`}
          label="Requests per second"
          hint="Empty: no limit."
          inputMode="decimal"
          value={requestsPerSecond}
          onChange={(changed) => {
            onChange({ requestsPerSecond: changed })
          }}
        />
      </div>
      {headers.map((header, row) => (
        <Header
          header={header}
          isKept={stays(webhook, header)}
          path={headerField(index, row)}
          valuePath={valueField(index, row)}
          onChange={(changes) => {
            onChange({ headers: headers.with(row, { ...header, ...changes }) })
          }}
          onRemove={() => {
            onChange({ headers: headers.toSpliced(row, 1) })
            focusSoon(() => add.current)
          }}
          key={row}
        />
      ))}
      <div class="actions">
        <button
          type="button"
          class="small"
          ref={add}
          onClick={() => {
            onChange({ headers: [...headers, { name: '', value: '', keptAs: '' }] })
          }}
        >
          Add a header
        </button>
        {onRemove && (
          <button type="button" class="small" onClick={onRemove}>
            Remove {title.toLowerCase()}
          </button>
        )}
      </div>
    </Group>
  )
}

interface HeaderProps {
  header: HeaderForm
  /** Whether an empty value stays what it is. */
  isKept: boolean
  path: string
  valuePath: string
  onChange: (changes: Partial<HeaderForm>) => void
  onRemove: () => void
}

/** A header. Its value is not shown once it is saved; an empty field keeps it. */
function Header(props: HeaderProps) {
  const { header, isKept, path, valuePath, onChange, onRemove } = props
  const { name, value, keptAs } = header
  const isLost = keptAs !== '' && !isKept
  return (
    <div class="header-row">
      <TextField
        path={path}
        label="Header"
        value={name}
        onChange={(changed) => {
          onChange({ name: changed })
        }}
      />
      <TextField
        path={valuePath}
        label={`Value of ${name === '' ? 'the header' : name}`}
        placeholder={isKept ? '••• stays as it is' : isLost ? 'Enter it again' : ''}
        value={value}
        onChange={(changed) => {
          onChange({ value: changed })
        }}
      />
      <button
        type="button"
        class="small"
        onClick={onRemove}
        aria-label={name === '' ? 'Remove the header' : `Remove the header ${name}`}
      >
        Remove
      </button>
    </div>
  )
}
