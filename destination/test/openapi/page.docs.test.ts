// The examples of docs/api.md, docs/setup.md, docs/tenants.md and docs/portal.md work with a running destination.
import { execFile, execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import openapiTS, { astToString } from 'openapi-typescript'
import ts from 'typescript'
import { expect, onTestFinished, test } from 'vitest'
import { ADMIN_TOKEN, destination, endpoint, KEY, post, settingsFor, start, track } from '../run.js'
import { PATH } from './document.js'

const run = promisify(execFile)
const read = (name: string) => readFileSync(join(dirname(PATH), name), 'utf8')
const page = read('api.md')

/** A destination with its own address for the operator, and the variables of the page. */
async function environment() {
  const adminListen = { host: '127.0.0.1', port: 0 }
  const running = await start(
    settingsFor([destination([await endpoint()])], {
      adminListen,
      settingsKeys: [Buffer.alloc(32).toString('base64')],
    }),
  )
  const { url: URL, adminUrl: ADMIN_URL } = running
  return { running, env: { ...process.env, URL, ADMIN_URL, WRITE_KEY: KEY, ADMIN_TOKEN } }
}

/** A reviver of JSON: the time of a count is another one each time. */
const anyTime = (name: string, value: unknown): unknown =>
  name === 'asOf' ? expect.any(Number) : value

test.skipIf(!hasCurl()).each(['api.md', 'setup.md', 'tenants.md', 'portal.md'])(
  'the commands print what %s says',
  async (name) => {
    const { env } = await environment()
    const text = read(name)
    const blocks = text.matchAll(/```sh run\n([^]*?)```\n\n```json\n([^]*?)```/g)
    const examples = Array.from(blocks, ([, command = '', answer = '']) => ({ command, answer }))
    expect(examples.length).toBe(text.match(/```sh run/g)?.length)
    expect(examples.length).toBeGreaterThan(0)
    for (const { command, answer } of examples) {
      const { stdout } = await run('sh', ['-c', command], { env })
      const shown = JSON.parse(answer, anyTime) as object
      expect(JSON.parse(stdout), command).toMatchObject(shown)
    }
  },
)

test('the generated client compiles, and finds a delivery', async () => {
  const { running, env } = await environment()
  await post(running, [track('m7', { event: 'Order Completed', userId: 'u7' })])
  const [, program = ''] = /```typescript\n([^]*?)```/.exec(page) ?? []
  const types = astToString(await openapiTS(pathToFileURL(PATH)))
  const folder = folderFor({
    'client.ts': program,
    'wrong.ts': program.replaceAll('messageId', 'messageID'),
    'hookline.d.ts': types,
    'package.json': '{"type":"module"}',
  })
  const [errors, errorsOfWrong] = compile([join(folder, 'client.ts'), join(folder, 'wrong.ts')])
  expect(errors).toEqual([])
  expect(errorsOfWrong).toEqual([expect.stringContaining('messageID')])
  const { stdout } = await run(process.execPath, [join(folder, 'client.js')], { env })
  expect(stdout).toBe('m7 u7\n')
})

/** A folder that finds the packages of this repository. */
function folderFor(files: Record<string, string>): string {
  const cache = join(dirname(PATH), '../node_modules/.cache')
  mkdirSync(cache, { recursive: true })
  const folder = mkdtempSync(join(cache, 'client-'))
  onTestFinished(() => {
    rmSync(folder, { recursive: true })
  })
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text)
  return folder
}

/** Compiles each file beside its source. Returns the errors of each. */
function compile(paths: string[]): string[][] {
  const program = ts.createProgram(paths, {
    target: ts.ScriptTarget.ES2023,
    // Without those of browsers, which take a second to read.
    lib: ['lib.es2023.d.ts'],
    module: ts.ModuleKind.NodeNext,
    types: ['node'],
    strict: true,
    skipLibCheck: true,
  })
  program.emit()
  return paths.map((path) =>
    ts
      .getPreEmitDiagnostics(program, program.getSourceFile(path))
      .map(({ messageText }) => ts.flattenDiagnosticMessageText(messageText, '\n')),
  )
}

function hasCurl(): boolean {
  try {
    execFileSync('curl', ['--version'], { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
}
