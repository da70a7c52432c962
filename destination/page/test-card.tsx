import { useSignal } from '@preact/signals'
import { openTokenDialog } from './access.js'
import { post } from './api.js'
import { useAsking } from './asking.js'
import { HeaderList } from './delivery-view.js'
import { counted, shortUrl, span } from './format.js'
import { JsonOrText } from './json-view.js'
import { EVENT_TYPES, type EventType } from '../src/model/call.js'
import type { TestedEndpoint, TestedSample, TestReport } from '../src/model/answers.js'
import { canWrite } from './state.js'
import { outcome } from './words.js'

/** Sends samples to a destination on request, and shows what its endpoints answered. */
export function TestCard({ name, enabled }: { name: string; enabled: boolean }) {
  const chosen = useSignal<readonly EventType[]>(EVENT_TYPES)
  const report = useSignal<TestReport | undefined>(undefined)
  const { failure, isAsking, ask } = useAsking()
  const send = async () => {
    if (!canWrite.value) {
      openTokenDialog()
      return
    }
    report.value = undefined
    await ask(async () => {
      const path = `/destinations/${encodeURIComponent(name)}/test`
      report.value = await post<TestReport>(path, { types: chosen.value })
    })
  }
  const toggle = (type: EventType, isOn: boolean) => {
    chosen.value = EVENT_TYPES.filter((one) => (one === type ? isOn : chosen.value.includes(one)))
  }
  return (
    <section class="card" aria-labelledby="test">
      <h2 id="test">Test</h2>
      <p class="hint">
        Sends a sample of each type to each endpoint now{enabled ? '' : ', although it is disabled'}
        . Nothing is stored. The requests have the header <code>X-Hookline-Test: true</code>.
      </p>
      <fieldset class="choices">
        <legend class="sr">Types of the samples</legend>
        {EVENT_TYPES.map((type) => (
          <label key={type}>
            <input
              type="checkbox"
              checked={chosen.value.includes(type)}
              onChange={({ currentTarget }) => {
                toggle(type, currentTarget.checked)
              }}
            />
            {type}
          </label>
        ))}
      </fieldset>
      <div class="actions">
        <button
          type="button"
          disabled={isAsking.value || chosen.value.length === 0}
          onClick={() => void send()}
        >
          Send a test
        </button>
      </div>
      <div aria-live="polite">
        {isAsking.value && <p>Sending {counted(chosen.value.length, 'sample')} …</p>}
        {failure.value && <p class="error">{failure.value}</p>}
        {report.value && <Result report={report.value} />}
      </div>
    </section>
  )
}

function Result({ report: { ok, endpoints } }: { report: TestReport }) {
  return (
    <>
      <p class="lead">
        {ok
          ? 'Each endpoint accepts these messages.'
          : 'Not every endpoint accepts these messages.'}
      </p>
      {endpoints.map((endpoint) => (
        <Endpoint endpoint={endpoint} isAlone={endpoints.length === 1} key={endpoint.url} />
      ))}
    </>
  )
}

function Endpoint({
  endpoint: { url, samples },
  isAlone,
}: {
  endpoint: TestedEndpoint
  isAlone: boolean
}) {
  return (
    <section aria-label={`Answers of ${url}`}>
      {!isAlone && (
        <h3 class="url" title={url}>
          {shortUrl(url)}
        </h3>
      )}
      <ol class="attempts">
        {samples.map((sample, i) => (
          <Sample sample={sample} before={samples[i - 1]} key={sample.type} />
        ))}
      </ol>
    </section>
  )
}

/** One sample. What is wrong is said once, if several samples in a row fail in the same way. */
function Sample({ sample, before }: { sample: TestedSample; before: TestedSample | undefined }) {
  const { type, verdict, code, status, ms, found, fix, request, response } = sample
  const isGood = verdict === 'delivered'
  const isSame = before?.found === found && before.fix === fix
  const words = code === null ? 'not sent' : outcome(code)
  return (
    <li class={isGood ? 'good' : 'bad'}>
      <p class="attempt-line">
        <span class={`pill ${isGood ? 'state-done' : 'state-dead'}`}>
          {status === null ? words : `${status} ${words}`}
        </span>
        <span>{type}</span>
        {ms !== null && <span class="hint">{span(ms)}</span>}
      </p>
      {!isGood && !isSame && <p class="break">{found}</p>}
      {!isGood && !isSame && fix !== null && <p class="break">{fix}</p>}
      {request && (
        <details>
          <summary>Request and answer of {type}</summary>
          <p class="hint">
            {request.signed.length === 0
              ? 'Not signed.'
              : `Signed by ${request.signed.join('; ')}.`}
          </p>
          <HeaderList headers={request.headers} />
          <JsonOrText text={request.body} label={`Body of ${type}, indented`} />
          {response === '' ? (
            <p class="hint">The answer has no body.</p>
          ) : (
            <>
              <p class="hint">The endpoint answered:</p>
              <JsonOrText text={response} label={`Start of the answer to ${type}`} />
            </>
          )}
        </details>
      )}
    </li>
  )
}
