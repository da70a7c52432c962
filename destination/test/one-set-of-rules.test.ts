// The SDK refuses at the call what a collector would refuse for good, and nothing else.
import { Analytics } from 'hookline'
import { beforeAll, expect, test } from 'vitest'
import { post, settingsFor, start } from './run.js'

/** So many levels of objects. */
function nested(levels: number): object {
  let value = {}
  for (let level = 1; level < levels; level++) value = { d: value }
  return value
}

const MESSAGE = { userId: 'u1', event: 'Signed Up', messageId: 'm1' }

/** What an application might give in place of the fields of a good message. */
const changes: object[] = [
  {},
  ...[
    'x'.repeat(100),
    'x'.repeat(101),
    '\0',
    'a\nb',
    'a\u001f',
    '\u007f',
    '\u0080',
    'é€𝄞',
    'a\ud800',
    'a\uFFFD',
  ].map((messageId) => ({ messageId })),
  ...['u\0', 'u\u0001', 'u\n', '𝄞'].flatMap((id) => [{ userId: id }, { anonymousId: id }]),
  { event: 'a\0b' },
  ...[498, 499, 500, 600].map((levels) => ({ properties: nested(levels) })),
  ...[499, 500].map((levels) => ({ context: nested(levels), integrations: { All: true } })),
  ...['0000-01-01', '9999-12-31', '2026-02-30', 'yesterday'].map((timestamp) => ({ timestamp })),
  { properties: { fill: 'x'.repeat(32_000) } },
  { properties: { fill: 'x'.repeat(33_000) } },
]

let url: string
beforeAll(async () => {
  const cleanUps: (() => unknown)[] = []
  const running = await start(
    settingsFor([], {}, (later) => cleanUps.push(later)),
    undefined,
    (later) => cleanUps.unshift(later),
  )
  url = running.url
  return async () => {
    for (const cleanUp of cleanUps) await cleanUp()
  }
})

const shown = (change: object) => JSON.stringify(change).slice(0, 60)

test.each(changes.map((change) => [shown(change), change]))(
  '%s: the SDK and the collector agree',
  async (_, change) => {
    const { status } = await post({ url }, [{ type: 'track', ...MESSAGE, ...change }])
    const analytics = new Analytics('web-key', { disabled: true })
    const record = () => {
      analytics.track({ ...MESSAGE, ...change })
    }
    if (status === 200) expect(record).not.toThrow()
    else expect(record).toThrow()
  },
)
