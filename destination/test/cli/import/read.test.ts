import { Readable } from 'node:stream'
import { gzipSync } from 'node:zlib'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { divide, toField } from '../../../src/cli/import/columns.js'
import { readCsv } from '../../../src/cli/import/csv.js'
import { findChanges } from '../../../src/model/changed-numbers.js'
import { readNdjson } from '../../../src/cli/import/ndjson.js'
import { MAX_LINE_BYTES, type Row } from '../../../src/cli/import/row.js'
import { anyCharacter } from '../../../../test/characters.js'

const START = { line: 0, offset: 0 }

/** Cuts bytes into chunks of a size. */
function* chunked(bytes: Buffer, size: number): Generator<Buffer> {
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size)
}

const stream = (bytes: Buffer, size = 7) => Readable.from(chunked(bytes, size))

async function all(rows: AsyncIterable<Row>): Promise<Row[]> {
  const found: Row[] = []
  for await (const row of rows) found.push(row)
  return found
}

const ndjson = (text: string | Buffer, size?: number) =>
  all(readNdjson(stream(Buffer.from(text), size), START))

/** The paths of the numbers of a line that are imported with another value. */
function changedPaths({ marked }: Row): string[] {
  const paths: string[] = []
  for (const [field, value] of Object.entries(marked ?? {})) {
    findChanges(value, field, (path) => paths.push(path))
  }
  return paths
}

describe('NDJSON', () => {
  test('each line is an object, with its number and its end', async () => {
    const rows = await ndjson('\uFEFF{"a":1}\n\n  {"b":"é"}\r\n{"c":3}')
    expect(rows.map(({ line, fields }) => [line, fields])).toEqual([
      [1, { a: 1 }],
      [3, { b: 'é' }],
      [4, { c: 3 }],
    ])
    expect(rows.map(({ end }) => end)).toEqual([11, 26, 33])
  })

  test('the numbers that JavaScript cannot hold are named', async () => {
    const rows = await ndjson('{"properties":{"id":1234567890123456789}}\n{"properties":{"id":7}}')
    expect(rows.map(changedPaths)).toEqual([['properties.id'], []])
  })

  test.each([
    ['{"a":', /^not valid JSON: /],
    ['[1]', /^expected a JSON object/],
    ['null', /^expected a JSON object/],
    ['7', /^expected a JSON object/],
  ])('%s is named, and the lines after it are read', async (line, problem) => {
    const rows = await ndjson(`{"a":1}\n${line}\n{"b":2}\n`)
    expect(rows.map(({ line, fields }) => [line, fields])).toEqual([
      [1, { a: 1 }],
      [2, undefined],
      [3, { b: 2 }],
    ])
    expect(rows[1]?.problem).toMatch(problem)
  })

  test.each(['[\n{"a":1},\n{"b":2}\n]', '[{"a":1},{"b":2}]\n', '{\n  "a": 1\n}\n'])(
    'JSON that is not by lines is named by its first line: %j',
    async (text) => {
      const [first, ...others] = await ndjson(text)
      const advice =
        ". Each line must be one object. This converts a file: jq -c . FILE. If it is one list: jq -c '.[]' FILE"
      expect(first?.problem).toContain(advice)
      expect(others.filter(({ problem }) => problem?.includes(advice))).toEqual([])
    },
  )

  test('a line that is not in UTF-8 is named, and the lines after it are read', async () => {
    const bytes = Buffer.from('{"a":"é"}\n\n{"b":"b"}', 'latin1')
    const rows = await ndjson(Buffer.concat([Buffer.from('{"c":"é\uFFFD"}\n'), bytes]))
    expect(rows.map(({ line, fields, problem }) => fields ?? [line, problem])).toEqual([
      { c: 'é\uFFFD' },
      [2, 'it is not in UTF-8. Save the file as UTF-8'],
      { b: 'b' },
    ])
  })

  test.each([64 * 1024, 4 * MAX_LINE_BYTES])(
    'a line that is too long is dropped, in chunks of %i bytes',
    async (size) => {
      const long = 'x'.repeat(2 * MAX_LINE_BYTES)
      const text = `{"a":1}\n${long}\n{"b":2}\n`
      const rows = await ndjson(text, size)
      expect(rows.map(({ line, end, fields }) => [line, end, fields])).toEqual([
        [1, 8, { a: 1 }],
        [2, 9 + long.length, undefined],
        [3, text.length, { b: 2 }],
      ])
      expect(rows[1]?.problem).toBe(
        `the line has ${long.length} bytes, but a call has at most 1048576`,
      )
    },
  )

  test('read from the end of any row, in chunks of any size, the rest is the same', async () => {
    const line = fc.oneof(
      fc.dictionary(fc.string(), fc.string({ unit: anyCharacter })).map((it) => JSON.stringify(it)),
      fc.constantFrom('', ' ', '{', '"é"', '\r'),
    )
    await fc.assert(
      fc.asyncProperty(
        fc.array(line, { maxLength: 12 }),
        fc.boolean(),
        fc.integer({ min: 1, max: 40 }),
        async (lines, hasEnd, size) => {
          const bytes = Buffer.from(lines.join('\n') + (hasEnd ? '\n' : ''))
          const rows = await ndjson(bytes, 1_000)
          for (const [i, { line, end }] of rows.entries()) {
            const rest = stream(bytes.subarray(end), size)
            expect(await all(readNdjson(rest, { line, offset: end }))).toEqual(rows.slice(i + 1))
          }
        },
      ),
      { numRuns: 50 },
    )
  })
})

describe('CSV', () => {
  const csv = (text: string | Buffer, map = {}, size?: number) =>
    all(readCsv(stream(Buffer.from(text), size), START, map))

  test('columns are fields, and what is within them', async () => {
    const rows = await csv(
      '\uFEFFtype,user_id,event,properties.total,properties.code,properties.a.b,traits.vip,timestamp\n' +
        'track,7,"Paid, at last",42.5,007,"[1,""x""]",,2020-01-01T00:00:00Z\n',
    )
    expect(rows.map(({ line, fields }) => [line, fields])).toEqual([
      [
        2,
        {
          type: 'track',
          userId: '7',
          event: 'Paid, at last',
          properties: { total: 42.5, code: '007', 'a.b': [1, 'x'] },
          timestamp: '2020-01-01T00:00:00Z',
        },
      ],
    ])
  })

  test('a cell that is a text stays as it is, also if it is a text or null in JSON', async () => {
    const [row] = await csv(
      'userId,traits.lastName,traits.nick,traits.age,traits.vip\n7,null,\"\"\"Big\"\"\",null ,true\n',
    )
    expect(row?.fields).toMatchObject({
      traits: { lastName: 'null', nick: '"Big"', age: 'null ', vip: true },
    })
  })

  test('the numbers that JavaScript cannot hold are named', async () => {
    const [row] = await csv(
      'userId,properties.total,properties.all,properties.code\n1e400,1e400,"[1,1234567890123456789]",1234567890123456789x\n',
    )
    expect(row && changedPaths(row)).toEqual(['properties.total', 'properties.all[1]'])
    expect(row?.fields).toMatchObject({
      userId: '1e400',
      properties: { code: '1234567890123456789x' },
    })
  })

  test('records that are wrong are named, and those after them are read', async () => {
    const rows = await csv('userId,event\nu1,a\nu2\nu3,b,c\nu4,"d"x\n\nu5,e\n')
    expect(rows.map(({ fields, problem }) => fields ?? problem)).toEqual([
      { userId: 'u1', event: 'a' },
      'the record has 1 columns, but the header has 2',
      'the record has 3 columns, but the header has 2',
      { userId: 'u4', event: '"d"x' },
      { userId: 'u5', event: 'e' },
    ])
  })

  test.each([
    ['to the end', 'userId,event\nu1,a\nu2,"b\nu3,c\n', 3, 3],
    ['for too long', `userId,event\nu1,a\nu2,"${'x,y\n'.repeat(MAX_LINE_BYTES / 4)}"\n`, 3, 65_536],
  ])('a quote that is open %s stops it, and its record is named', async (_, text, line, size) => {
    await expect(csv(text, {}, size)).rejects.toThrow(
      `the CSV is not valid: the record that begins at line ${line} has a quote that is not closed. Close it.`,
    )
  })

  const long = 'x'.repeat(MAX_LINE_BYTES)

  test.each([
    ['without quotes', `u2,${long}`],
    ['in quotes', `u2,"${long}, ""and more"""`],
  ])('a record that is too long, %s, is named, and those after it are read', async (_, record) => {
    const text = `userId,event\nu1,a\n${record}\nu3,b\n`
    const rows = await all(readCsv(stream(Buffer.from(text), 65_536), START, {}))
    expect(rows.map(({ line, end, fields, problem }) => [line, end, fields ?? problem])).toEqual([
      [2, 18, { userId: 'u1', event: 'a' }],
      [
        3,
        19 + record.length,
        `the record has ${record.length} bytes, but a call has at most 1048576`,
      ],
      [4, text.length, { userId: 'u3', event: 'b' }],
    ])
  })

  test('a record that is not in UTF-8 is named, and those after it are read', async () => {
    const rows = await csv(Buffer.from('userId,event\nu1,"Zoë\nbought"\nu2,Ok\n', 'latin1'))
    expect(rows.map(({ line, fields, problem }) => problem ?? [line, fields])).toEqual([
      'it is not in UTF-8. Save the file as UTF-8',
      [4, { userId: 'u2', event: 'Ok' }],
    ])
    const header = Buffer.from('userId,properties.größe\nu1,1\n', 'latin1')
    await expect(csv(header)).rejects.toThrow('at line 1 it is not in UTF-8')
  })

  test('a record that is too long and has an open quote stops it', async () => {
    const text = `userId,event\nu1,"${long}\nu3,b\n`
    await expect(csv(text, {}, 65_536)).rejects.toThrow(
      'the record that begins at line 2 has a quote that is not closed. Close it.',
    )
  })

  test('a header that is too long stops it, with the reason', async () => {
    await expect(csv(`userId,${long}\nu3,b\n`, {}, 65_536)).rejects.toThrow(
      'the CSV is not valid: at line 1 the record has 1048583 bytes, but a call has at most 1048576',
    )
  })

  test('lines may end with a carriage return alone', async () => {
    const rows = await all(
      readCsv(stream(Buffer.from('userId,event\ru1,a\ru2,b\r'), 64), START, {}),
    )
    expect(rows.map(({ line, end, fields }) => [line, end, fields])).toEqual([
      [2, 18, { userId: 'u1', event: 'a' }],
      [3, 23, { userId: 'u2', event: 'b' }],
    ])
  })

  test('a line break within a cell stays as it is in the file', async () => {
    for (const lineBreak of ['\r', '\n', '\r\n']) {
      const written = ['userId,event', 'u1,"one', 'two', lineBreak, 'three"', 'u2,b', ''].join(
        lineBreak,
      )
      const rows = await csv(written, {}, 256)
      expect(rows.map(({ fields }) => fields)).toEqual([
        { userId: 'u1', event: ['one', 'two', lineBreak, 'three'].join(lineBreak) },
        { userId: 'u2', event: 'b' },
      ])
    }
  })

  test.each([
    ['a field', ' userId ', '=userId'],
    ['a field within another', ' traits.plan', '=traits.plan'],
    ['no field', ' plan', '=properties.plan'],
  ])('a column with spaces around the name of %s gets advice for it', async (_, column, field) => {
    await expect(csv(`${column},event\nu1,a\n`)).rejects.toThrow(`--map '${column}${field}'`)
  })

  test('two columns that are the same field are refused', async () => {
    await expect(csv('userId,user_id\nu1,u2\n')).rejects.toThrow(
      `The columns "userId" and "user_id" both set userId. Leave one of them out with --map 'user_id='.`,
    )
    await expect(csv('userId,traits.a,traits.a\nu1,1,2\n')).rejects.toThrow(
      'The columns "traits.a" and "traits.a" both set traits.a. Rename one of them in the file.',
    )
  })

  test.each(['utf16le', 'utf16be'])('a file in %s is refused, with the fix', async (encoding) => {
    const bytes = Buffer.from('\uFEFFuserId,event\n', 'utf16le')
    const text = encoding === 'utf16le' ? bytes : bytes.swap16()
    await expect(all(readCsv(stream(text), START, {}))).rejects.toThrow('Save it as UTF-8.')
  })

  test.each([
    ['gzip', gzipSync('userId,event\nu1,a\n')],
    ['a workbook', Buffer.from('PK\x03\x04\x14\x00')],
  ])('%s is refused, with the fix', async (_, bytes) => {
    const advice = 'the file is compressed, but only text can be read. Unpack it first.'
    await expect(csv(bytes)).rejects.toThrow(advice)
    await expect(all(readNdjson(stream(bytes), START))).rejects.toThrow(advice)
  })

  test('cells of any content are read as they were written, in chunks of any size', async () => {
    const cell = fc.oneof(
      fc.string({ unit: 'grapheme' }),
      fc.string({ unit: fc.constantFrom('"', ',', '\n', '\r', 'é', ' ') }),
    )
    const written = (text: string) => `"${text.replaceAll('"', '""')}"`
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.tuple(cell, cell), { maxLength: 6 }),
        fc.constantFrom('\n', '\r\n'),
        fc.integer({ min: 1, max: 40 }),
        async (records, lineBreak, size) => {
          const lines = records.map((cells) => cells.map(written).join(','))
          const bytes = Buffer.from(['userId,event', ...lines, ''].join(lineBreak))
          const read = await all(readCsv(stream(bytes, size), START, {}))
          expect(read.map(({ text }) => JSON.parse(text) as unknown)).toEqual(records)
        },
      ),
      { numRuns: 200 },
    )
  })

  test('read from the end of any record, the rest is the same', async () => {
    const text = 'userId,event\r\nu1,"two\r\nlines"\r\nu2,b\r\n\r\nu3\r\nu4,"é, ü"\r\nu5,e'
    const bytes = Buffer.from(text)
    const rows = await csv(text)
    expect(rows).toHaveLength(5)
    const header = ['userId', 'event']
    for (const [i, { line, end }] of rows.entries()) {
      const rest = readCsv(stream(bytes.subarray(end)), { line, offset: end }, {}, header)
      const told = (row: Row) => [row.end, row.fields, row.problem]
      expect((await all(rest)).map(told)).toEqual(rows.slice(i + 1).map(told))
    }
  })

  test('a column of nobody is refused before anything is sent', async () => {
    await expect(csv('userId,total\nu1,3\n')).rejects.toThrow(
      /^The column "total" is not a field of a call: .*--map 'total=properties.total'/,
    )
    const rows = await csv('userId,total,notes\nu1,3,x\n', { total: 'properties.total', notes: '' })
    expect(rows[0]?.fields).toEqual({ userId: 'u1', properties: { total: 3 } })
  })

  test('a column __proto__ is a column as any other', async () => {
    const [row] = await csv(
      'userId,properties.__proto__,traits.__proto__\nu1,9007199254740993,{"a":1}\n',
    )
    expect(JSON.stringify(row?.fields)).toBe(
      '{"userId":"u1","properties":{"__proto__":9007199254740992},"traits":{"__proto__":{"a":1}}}',
    )
    expect(row && changedPaths(row)).toEqual(['properties.__proto__'])
  })

  test('a column without a name is refused with advice that can be taken', async () => {
    const text = 'userId,\nu1,3\n'
    await expect(csv(text)).rejects.toThrow(
      `Name its field with --map '=properties.name', or leave it out with --map '='.`,
    )
    expect((await csv(text, { '': '' }))[0]?.fields).toEqual({ userId: 'u1' })
    const [row] = await csv(text, { '': 'properties.name' })
    expect(row?.fields).toEqual({ userId: 'u1', properties: { name: 3 } })
  })

  test.each([';', '\t', '|'])('columns that %j separates are refused', async (separator) => {
    const header = `userId${separator}event`
    await expect(csv(`${header}\nu1${separator}E\n`)).rejects.toThrow(
      `The columns are separated by ${JSON.stringify(separator)}: expected commas.`,
    )
    const [row] = await csv(`${header}\nu1\n`, { [header]: 'userId' })
    expect(row?.fields).toEqual({ userId: 'u1' })
  })
})

test.each([
  ['total=properties.total', 'total', 'properties.total'],
  ['notes=', 'notes', ''],
  ['=', '', ''],
  ['=properties.name', '', 'properties.name'],
  ['a=b=properties.a=b', 'a=b', 'properties.a=b'],
  ['utm=user_id', 'utm', 'user_id'],
  ['a=b=', 'a=b', ''],
  ['a=bogus', 'a', 'bogus'],
])('--map %s is the column %j and the field %j', (text, column, field) => {
  expect(divide(text)).toEqual({ column, field })
})

test.each([
  ['userId', ['userId']],
  ['previous_id', ['previousId']],
  ['traits.email', ['traits', 'email']],
  ['context.page.url', ['context', 'page.url']],
])('the column %s is %j', (column, path) => {
  expect(toField(column, {})).toEqual(path)
})

test.each(['total', 'properties', 'properties.', 'toString', '__proto__', ''])(
  'the column %j is not a field of a call',
  (column) => {
    expect(() => toField(column, {})).toThrow(`The column ${JSON.stringify(column)}`)
  },
)
