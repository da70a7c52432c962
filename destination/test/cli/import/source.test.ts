import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { openSource } from '../../../src/cli/import/source.js'
import { emptyFolder } from '../process.js'

const call = (i: number) => `{"n":${i}}`

/** The lines of a file, read from a place where an earlier import ended. */
async function linesOf(file: string, text: string, at?: { line: number; offset: number }) {
  writeFileSync(file, text)
  const header = file.endsWith('csv') ? ['event'] : undefined
  const before = at && { ...at, head: '', accepted: 0, bad: 0, ...(header && { header }) }
  const found: [number, string][] = []
  for await (const { line, text } of openSource(file, { map: {} }, before).rows) {
    found.push([line, text])
  }
  return found
}

describe.each([
  ['\n', ''],
  ['\r\n', ''],
  ['\r\n', '\r'],
  ['\r', ''],
])('a file with lines that end with %j, whose last line ended with %j', (lineBreak, end) => {
  test.each([1, 2, 3])('has the same lines after %i empty ones were added', async (breaks) => {
    const file = join(emptyFolder(), 'a.ndjson')
    const imported = call(1) + lineBreak + call(2) + end
    const added = lineBreak.repeat(breaks).slice(end.length) + call(3) + lineBreak + call(4)
    const whole = await linesOf(file, imported + added)
    expect(whole.map(([line]) => line)).toEqual([1, 2, 2 + breaks, 3 + breaks])
    const at = { line: 2, offset: imported.length }
    expect(await linesOf(file, imported + added, at)).toEqual(whole.slice(2))
    expect(await linesOf(file, imported, at)).toEqual([])
  })

  test('has the same records of CSV', async () => {
    const file = join(emptyFolder(), 'a.csv')
    const imported = `event${lineBreak}"a${lineBreak}b"${end}`
    const whole = await linesOf(file, `${imported}${lineBreak.slice(end.length)}c${lineBreak}d`)
    const at = { line: 3, offset: imported.length }
    expect(whole.map(([line]) => line)).toEqual([3, 4, 5])
    expect(
      await linesOf(file, `${imported}${lineBreak.slice(end.length)}c${lineBreak}d`, at),
    ).toEqual(whole.slice(1))
  })

  test('is refused if its last line goes on', async () => {
    if (end !== '') return
    const file = join(emptyFolder(), 'a.ndjson')
    const imported = call(1) + lineBreak + '{"n":2'
    await expect(
      linesOf(file, `${imported}}${lineBreak}`, { line: 2, offset: imported.length }),
    ).rejects.toThrow(
      `Line 2 of ${file} was imported before it was complete. Give --restart to import the whole file.`,
    )
  })
})

test('a file whose lines ended with a line break goes on at once, also with an empty line', async () => {
  const file = join(emptyFolder(), 'a.ndjson')
  for (const lineBreak of ['\n', '\r\n']) {
    const imported = call(1) + lineBreak
    const at = { line: 1, offset: imported.length }
    expect(await linesOf(file, imported + call(2), at)).toEqual([[2, call(2)]])
    expect(await linesOf(file, imported + lineBreak + call(3), at)).toEqual([[3, call(3)]])
  }
})
