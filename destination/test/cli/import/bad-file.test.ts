import { appendFileSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { BadFile } from '../../../src/cli/import/bad-file.js'

const refused = (...lines: number[]) => lines.map((line) => ({ line, problem: 'é' }))
const emptyFile = () => join(mkdtempSync(join(tmpdir(), 'hookline-bad-')), 'bad.ndjson')
const linesOf = (path: string) =>
  readFileSync(path, 'utf8')
    .split('\n')
    .filter(Boolean)
    .map((line) => (JSON.parse(line) as { line: number }).line)

/** Writes lines as an import does that is then killed, after it has written a last part. */
function killed(path: string, lines: number[], last: string): string {
  const file = new BadFile(path, undefined)
  file.add(refused(...lines))
  file.write()
  appendFileSync(path, last)
  return file.mark
}

describe('the file of --bad', () => {
  test('keeps the lines up to the mark, and drops what a killed import wrote after it', () => {
    const path = emptyFile()
    const mark = killed(path, [1, 2], '{"line":5,"problem":"x"}\n{"li')
    const file = new BadFile(path, mark)
    file.add(refused(3))
    file.write()
    file.add(refused(4, 5))
    file.write()
    expect(file.isContinued).toBe(true)
    expect(linesOf(path)).toEqual([1, 2, 3, 4, 5])
    expect(new BadFile(path, file.mark).isContinued).toBe(true)
  })

  test.each([
    ['other lines', '{"line":7,"problem":"of another import"}\n'.repeat(9)],
    ['fewer lines', '{"line":1,'],
    ['no lines', ''],
  ])('with %s than those of the mark is written from its start', (_, content) => {
    const path = emptyFile()
    const mark = killed(path, [1, 2], '')
    writeFileSync(path, content)
    const file = new BadFile(path, mark)
    expect(file.isContinued).toBe(false)
    file.add(refused(3))
    file.write()
    expect(linesOf(path)).toEqual([3])
  })

  test('can be a pipe', () => {
    const file = new BadFile('/dev/null', undefined)
    file.add(refused(1))
    file.write()
    expect(file.isContinued).toBe(false)
  })
})
