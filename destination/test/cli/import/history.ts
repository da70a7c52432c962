import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { folderWith } from '../process.js'

/** The call in a line of `history.ndjson`. */
export const call = (i: number) => ({
  type: 'track',
  userId: `u${i}`,
  event: 'Order Completed',
  properties: { total: i },
  timestamp: '2020-01-01T00:00:00.000Z',
})

/** Makes a folder with `history.ndjson`. The line with the number `broken` is not valid. */
export function folderOf(calls: number, broken: number): string {
  const folder = folderWith({
    listen: '127.0.0.1:0',
    sources: [{ name: 'web', writeKey: 'key' }],
    destinations: [],
  })
  const lines = Array.from({ length: calls }, (_, i) =>
    i + 1 === broken ? '{"type":' : JSON.stringify(call(i + 1)),
  )
  writeFileSync(join(folder, 'history.ndjson'), `${lines.join('\n')}\n`)
  return folder
}

export const progressOf = (folder: string) =>
  JSON.parse(readFileSync(join(folder, 'history.ndjson.progress'), 'utf8')) as { line: number }
