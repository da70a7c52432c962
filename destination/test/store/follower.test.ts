import { expect, test } from 'vitest'
import { Follower } from '../../src/store/follower.js'
import type { Records } from '../../src/store/store.js'

test('what another server answers in between is read again', async () => {
  const answer = (history: string, body: string): Records => ({
    records: [{ kind: 'k', name: 'x', version: 5, body }],
    ...{ revision: 5, forgotten: 0, history },
  })
  // The first question of each time is whether anything is new.
  const answers = [answer('new', 'b'), answer('old', 'a'), answer('new', 'b'), answer('new', 'b')]
  const heard: unknown[] = []
  const follower = new Follower(
    { records: () => Promise.resolve(answers.shift() ?? answer('new', 'b')) },
    (records) => {
      heard.push(records.map(({ body }) => body))
      return Promise.resolve()
    },
  )
  await follower.catchUp()
  await follower.catchUp()
  expect(heard).toEqual([['a'], ['b']])
  await follower.catchUp()
  expect(heard).toHaveLength(2)
})
