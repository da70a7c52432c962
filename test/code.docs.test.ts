// The code of the documents compiles and runs.
import { existsSync, mkdtempSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join, normalize } from 'node:path'
import ts from 'typescript'
import { describe, expect, inject, test } from 'vitest'
import { runModule, startCollector } from './collector.js'
import { readDocuments, readExamples, ROOT, type CodeBlock } from './documents.js'

describe('code', () => {
  const isScript = ({ language }: CodeBlock) => ['js', 'ts'].includes(language)
  const blocks = readDocuments()
    .flatMap((document) => document.blocks)
    .filter(isScript)
  const sources = readdirSync(join(ROOT, 'src'), { recursive: true, encoding: 'utf8' })
  const examples = sources
    .sort()
    .flatMap((file) => (file.endsWith('.ts') ? readExamples(`src/${file}`) : []))

  test('of the documents and of the doc comments type checks, and a mistake in it would be found', () => {
    expect(blocks.length).toBeGreaterThan(25)
    expect(examples.length).toBeGreaterThan(10)
    const code = "const one = 1\nanalytics.track({ userId: one, event: 'e' })\n"
    const wrong = { at: 'wrong.md:1', language: 'js', flags: [], code }
    const errors = typeErrors([...blocks, ...examples, wrong])
    expect(errors).toEqual([expect.stringMatching(/^wrong.md:1, line 2 of it: /)])
  }, 60_000)

  const programs = blocks.filter(({ flags }) => flags.includes('run'))

  test('to run is there', () => {
    expect(programs.length).toBeGreaterThan(5)
  })

  test.concurrent.for(programs)(
    'at $at runs, and prints what its comments say',
    async ({ code }, { expect, onTestFinished }) => {
      const collector = await startCollector(onTestFinished)
      const source = code.replaceAll('https://collect.example.com', collector.url)
      const env = { ANALYTICS_ENDPOINT: collector.url }
      const cwd = folderWith([lost('e', '')])
      const { code: status, stdout, stderr } = await runModule(source, { env, cwd })
      expect({ status, stderr }).toEqual({ status: 0, stderr: '' })
      const said = code.matchAll(/console\.log\(.*\) \/\/ (.+)$/gm)
      const lines = Array.from(said, ([, text = '']) => `${text}\n`)
      expect(stdout).toBe(lines.join(''))
      const isSent =
        /^ *(analytics|client|request)(\.track|\[message\.type\])\(/m.test(code) &&
        !code.includes('hookline/testing')
      expect(collector.accepted.length > 0).toBe(isSent)
    },
  )

  const [again] = programs.filter(({ code }) => code.includes('lost.ndjson'))
  if (!again) throw new Error('No program sends lost messages again.')

  test('that sends lost messages again loses none to its own queue, and keeps what is refused', async () => {
    const collector = await startCollector()
    const events = Array.from({ length: 30 }, (_, index) => `e${index}`)
    const cwd = folderWith(events.map((event) => lost(event, 'x'.repeat(30_000))))
    collector.otherwise(async ({ messages }) => {
      // The first answer comes when the file could have been read to its end.
      if (collector.arrivals.length === 1) await new Promise((resolve) => setTimeout(resolve, 500))
      const at = messages.findIndex(({ event }) => event === 'e7')
      const rejected = at < 0 ? [] : [{ index: at, code: 'invalid', message: 'no' }]
      return { body: JSON.stringify({ rejected }) }
    })
    const source = again.code
      .replace("'WRITE_KEY', {", '$& maxQueueBytes: 400_000,')
      .replace('10_000_000', '100_000')
    const ended = await runModule(source, { env: { ANALYTICS_ENDPOINT: collector.url }, cwd })
    expect(ended).toMatchObject({ code: 0, stderr: '' })
    expect(collector.accepted.map(({ event }) => event)).toEqual(events)
    const left = readFileSync(join(cwd, 'lost.ndjson'), 'utf8').trim()
    expect(JSON.parse(left)).toMatchObject({ event: 'e7', messageId: 'id of e7' })
    expect(existsSync(join(cwd, 'again.ndjson'))).toBe(false)
  })

  test('that sends lost messages again takes what an interrupted run has left first', async () => {
    const collector = await startCollector()
    const cwd = folderWith([lost('new', '')])
    writeFileSync(join(cwd, 'again.ndjson'), lost('left', ''))
    const env = { ANALYTICS_ENDPOINT: collector.url }
    for (const event of ['left', 'new']) {
      expect(await runModule(again.code, { env, cwd })).toMatchObject({ code: 0, stderr: '' })
      expect(collector.accepted.at(-1)).toMatchObject({ event })
    }
  })
})

/** A folder of its own for a program, with a file of lost messages. */
function folderWith(messages: readonly string[]): string {
  const folder = mkdtempSync(join(inject('compiledDir'), 'program-'))
  writeFileSync(join(folder, 'lost.ndjson'), messages.join(''))
  return folder
}

/** A line of the file. */
function lost(event: string, text: string): string {
  const message = {
    type: 'track',
    messageId: `id of ${event}`,
    timestamp: '2026-01-01T00:00:00.000Z',
  }
  return `${JSON.stringify({ ...message, userId: 'u1', event, properties: { text } })}\n`
}

/** What fragments of code refer to without saying where it comes from. */
const SURROUNDINGS = `
  import type * as hookline from 'hookline'
  declare global {
    const Analytics: typeof hookline.Analytics
    type Analytics = hookline.Analytics
    const analytics: hookline.Analytics
    const writeKey: string
    const secret: string
    const userId: string
    const server: import('node:http').Server
    const expect: typeof import('vitest').expect
    const test: typeof import('vitest').test
    function checkout(shop: { analytics: hookline.Analytics }): Promise<void>
    function save(...what: unknown[]): Promise<void>
    function forget(userId: string): Promise<void>
  }
`

/** An implicit any, an unknown: what only an annotation could mend is no mistake in JavaScript. */
const NEEDS_ANNOTATION = [7006, 7031, 7053, 18046]

/** What the compiler has to say of code, each piece as a module of its own. */
function typeErrors(blocks: readonly CodeBlock[]): string[] {
  const { config } = ts.readConfigFile(join(ROOT, 'tsconfig.json'), (file) =>
    ts.sys.readFile(file),
  ) as {
    config: object
  }
  const parsed = ts.parseJsonConfigFileContent({ ...config, include: [] }, ts.sys, ROOT)
  const compilerOptions: ts.CompilerOptions = {
    ...parsed.options,
    noUnusedLocals: false,
    noUnusedParameters: false,
    // process.env.NAME is what everybody writes.
    noPropertyAccessFromIndexSignature: false,
    paths: { ...parsed.options.paths, 'hookline-destination': ['./destination/src/index.ts'] },
  }
  const at = new Map(blocks.map((block, index) => [join(ROOT, `docs/code-${index}.mts`), block]))
  const files = new Map(Array.from(at, ([file, { code }]) => [file, `${code}\nexport {}\n`]))
  files.set(join(ROOT, 'docs/surroundings.d.mts'), SURROUNDINGS)
  const host = ts.createCompilerHost(compilerOptions)
  const getSourceFile = host.getSourceFile.bind(host)
  host.fileExists = (file) => files.has(normalize(file)) || ts.sys.fileExists(file)
  host.readFile = (file) => files.get(normalize(file)) ?? ts.sys.readFile(file)
  host.getSourceFile = (file, languageOrOptions, ...more) => {
    const text = files.get(normalize(file))
    if (text === undefined) return getSourceFile(file, languageOrOptions, ...more)
    return ts.createSourceFile(file, text, languageOrOptions)
  }
  const program = ts.createProgram([...files.keys()], compilerOptions, host)
  return [...at].flatMap(([file, block]) => {
    const source = program.getSourceFile(file)
    const diagnostics = ts
      .getPreEmitDiagnostics(program, source)
      .filter(({ code }) => block.language !== 'js' || !NEEDS_ANNOTATION.includes(code))
    return diagnostics.map(({ messageText, start = 0 }) => {
      const line = source?.getLineAndCharacterOfPosition(start).line ?? 0
      const message = ts.flattenDiagnosticMessageText(messageText, '\n')
      return `${block.at}, line ${line + 1} of it: ${message}`
    })
  })
}
