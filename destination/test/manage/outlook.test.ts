// What a change would make of everything is decided for all of it together.
import { expect, test, vi } from 'vitest'
import { Managed } from '../../src/manage/managed.js'
import { Outlook, type Wish } from '../../src/manage/outlook.js'
import { settingsFor } from '../run.js'

test('all mistakes name the sources that there are, which are listed once: of thousands, that takes long', async () => {
  const sources = Array.from({ length: 3_000 }, (_, i) => ({ name: `s${i}`, writeKey: `k${i}` }))
  const managed = await Managed.open(settingsFor([], { sources }), Date.now)
  const listed = vi.spyOn(managed, 'settings')
  const wishes = ['crm', 'erp'].map((name): Wish => {
    const raw = {
      sources: Array.from({ length: 3_000 }, (_, i) => `${name}-${i}`),
      webhooks: [{ url: 'https://crm.example.com/' }],
    }
    const path = `destinations[${name}]`
    return { kind: 'destination', name, path, before: undefined, after: { raw, generated: {} } }
  })
  const outlook = new Outlook(managed, wishes)
  for (const [i, wish] of wishes.entries()) {
    const checked = outlook.check(wish)
    if (!('problems' in checked)) throw new Error('it was not refused')
    expect(checked.problems).toHaveLength(3_000)
    expect(checked.problems.at(-1)).toEqual({
      path: `destinations[${wish.name}].sources[2999]`,
      message: expect.stringMatching(
        new RegExp(`\\("s0", .* and 2980 others\\), got "${['crm', 'erp'][i]}-2999"\\.$`),
      ) as string,
    })
  }
  expect(listed).toHaveBeenCalledTimes(1)
})
