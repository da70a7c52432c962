import { canWrite, isAdmin } from './state.js'

const GUIDE = 'https://github.com/hookline/hookline/blob/main/docs/setup.md#begin'

/** Says why nothing can be changed, and what to do about it. */
export function NoChanges({ canChange }: { canChange: boolean }) {
  return (
    <div class="sentence note notice">
      {!isAdmin.value && (
        <p>
          {canWrite.value ? (
            'Changes need the admin token, and this tab has the operator token.'
          ) : (
            <>
              Changes need the admin token, and the settings have none. Set <code>adminToken</code>{' '}
              and reload the settings.
            </>
          )}
        </p>
      )}
      {!canChange && (
        <>
          <p>
            Sources and destinations are in the settings file, and can only be changed there. To set
            them up here too, the settings need a <code>settingsKey</code>, which encrypts them in
            the store. Create one, and name it in the settings:
          </p>
          <pre tabIndex={0}>openssl rand -base64 32</pre>
          <p>
            <a href={GUIDE} target="_blank" rel="noreferrer">
              How to set a settingsKey
            </a>
          </p>
        </>
      )}
    </div>
  )
}
