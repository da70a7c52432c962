// The programs of docs/signatures.md, run by the languages that this machine has.
import { spawn, spawnSync } from 'node:child_process'
import { createHmac } from 'node:crypto'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import { readDocuments } from './documents.js'

const SECRET = 'hush, naïve'

interface Runner {
  file: string
  /** Prints a version, if the language is there. */
  probe: readonly string[]
  build?: readonly string[]
  run: readonly string[]
}

const RUNNERS: Readonly<Record<string, Runner>> = {
  python: { file: 'verify.py', probe: ['python3', '--version'], run: ['python3', 'verify.py'] },
  php: { file: 'verify.php', probe: ['php', '--version'], run: ['php', 'verify.php'] },
  ruby: { file: 'verify.rb', probe: ['ruby', '--version'], run: ['ruby', 'verify.rb'] },
  go: {
    file: 'verify.go',
    probe: ['go', 'version'],
    build: ['go', 'build', '-o', 'verify-go', 'verify.go'],
    run: ['./verify-go'],
  },
  java: {
    file: 'Verify.java',
    probe: ['javac', '-version'],
    build: ['javac', 'Verify.java'],
    run: ['java', 'Verify'],
  },
  csharp: {
    file: 'verify.cs',
    probe: ['dotnet', '--version'],
    run: ['dotnet', 'run', 'verify.cs'],
  },
  bash: { file: 'verify.sh', probe: ['openssl', 'version'], run: ['bash', 'verify.sh'] },
}

const folder = mkdtempSync(join(tmpdir(), 'hookline-signatures-'))
afterAll(() => {
  rmSync(folder, { recursive: true })
})

const blocks = readDocuments()
  .filter(({ path }) => path === 'docs/signatures.md')
  .flatMap(({ blocks }) => blocks)
  .filter(({ flags }) => flags.includes('run'))

const isThere = ([command = '', ...args]: readonly string[]) =>
  spawnSync(command, args, { stdio: 'ignore' }).status === 0

/** The exit code of a program, which reads a body and gets arguments. */
async function run(
  [command = '', ...args]: readonly string[],
  body: Buffer,
  secret: string | null = SECRET,
) {
  const child = spawn(command, args, {
    cwd: folder,
    env: { ...process.env, WEBHOOK_SECRET: secret ?? undefined, GOCACHE: join(folder, 'go') },
    stdio: ['pipe', 'ignore', 'pipe'],
  })
  let errors = ''
  child.stderr.on('data', (chunk) => (errors += String(chunk)))
  child.stdin.on('error', () => undefined)
  child.stdin.end(body)
  const [code] = (await once(child, 'close')) as [number]
  return { code, errors }
}

const sign = (body: Buffer, secret = SECRET) =>
  createHmac('sha1', secret).update(body).digest('hex')

const BODY = Buffer.from('{"type":"track","event":"Größe ✓","userId":"u\\u0000"}')

test('there is a program for each language that is run here', () => {
  expect(blocks.map(({ language }) => language).sort()).toEqual(Object.keys(RUNNERS).sort())
})

describe('the program in', () => {
  const left = Object.keys(RUNNERS).filter((language) => !isThere(RUNNERS[language]?.probe ?? []))
  if (left.length > 0) console.log(`Not installed, so left out: ${left.join(', ')}.`)

  test.concurrent.for(blocks.filter(({ language }) => !left.includes(language)))(
    '$language accepts what is signed, and nothing else',
    async ({ language, code }, { expect }) => {
      const runner = RUNNERS[language]
      if (!runner) throw new Error(`nothing runs ${language}`)
      writeFileSync(join(folder, runner.file), code)
      if (runner.build) {
        expect(await run(runner.build, Buffer.alloc(0))).toEqual({ code: 0, errors: '' })
      }
      const right = sign(BODY)
      const bytes = Buffer.from([0xff, 0x00, 0x0a, 0x0d, 0x0a])
      const cases: [Buffer, string, number][] = [
        [BODY, right, 0],
        [bytes, sign(bytes), 0],
        [BODY, sign(BODY, 'another'), 1],
        [Buffer.concat([BODY, Buffer.from('\n')]), right, 1],
        [BODY, right.slice(0, -1), 1],
        [BODY, '', 1],
      ]
      for (const [body, signature, expected] of cases) {
        const { code, errors } = await run([...runner.run, signature], body)
        expect({ signature, code, errors }).toEqual({ signature, code: expected, errors: '' })
      }
      // A variable that is empty, or not set, is no secret that a stranger could sign with.
      expect(await run([...runner.run, sign(BODY, '')], BODY, '')).toEqual({ code: 1, errors: '' })
      expect(await run([...runner.run, sign(BODY, '')], BODY, null)).toMatchObject({ code: 1 })
    },
  )
})
