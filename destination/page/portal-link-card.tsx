import { useSignal } from '@preact/signals'
import { post } from './api.js'
import { useAsking } from './asking.js'
import { CopyButton } from './copy-button.js'
import { Failure, TextField } from './form.js'
import { clock } from './format.js'
import type { PortalLink } from '../src/model/answers.js'
import { now } from './state.js'

/** Makes a link that opens the portal of a tenant, to look at it as its customer does, or to give it to the customer. */
export function PortalLinkCard({ tenant }: { tenant: string }) {
  const minutes = useSignal('15')
  const by = useSignal('')
  const link = useSignal<PortalLink | undefined>(undefined)
  const { failure, isAsking, ask } = useAsking()
  const make = async (event: SubmitEvent) => {
    event.preventDefault()
    link.value = undefined
    await ask(async () => {
      link.value = await post<PortalLink>(`/tenants/${encodeURIComponent(tenant)}/link`, {
        // What is no number is sent as it is, and refused with the reason.
        minutes: /^\d+$/.test(minutes.value.trim()) ? Number(minutes.value) : minutes.value,
        ...(by.value.trim() !== '' && { by: by.value.trim() }),
      })
    })
  }
  return (
    <section class="card" aria-labelledby="portal-link">
      <h2 id="portal-link">Portal</h2>
      <p class="hint">
        A link shows a customer the deliveries of this tenant, and nothing of others. Everybody who
        has it can use it until it ends.
      </p>
      <form class="form" onSubmit={(event) => void make(event)} aria-labelledby="portal-link">
        <TextField
          path="minutes"
          label="Minutes until it ends"
          inputMode="numeric"
          value={minutes.value}
          onChange={(text) => {
            minutes.value = text
          }}
        />
        <TextField
          path="by"
          label="For whom it is"
          hint="Optional. The audit log has it with each change, such as ada@acme.example."
          value={by.value}
          onChange={(text) => {
            by.value = text
          }}
        />
        <Failure text={failure.value} />
        <div class="actions">
          <button type="submit" disabled={isAsking.value}>
            Make a link
          </button>
        </div>
      </form>
      {link.value && (
        <>
          <p role="status">It opens the portal until {clock(link.value.expiresAt, now.value)}.</p>
          <pre tabIndex={0} aria-label="Link to the portal">
            {link.value.url}
          </pre>
          <div class="actions">
            <CopyButton text={link.value.url} what="link" />
            <a href={link.value.url} target="_blank" rel="noreferrer">
              Open it
            </a>
          </div>
        </>
      )}
    </section>
  )
}
