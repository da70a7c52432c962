// @module-tag long
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, openSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, inject, test } from 'vitest'
import { freePort } from '../run.js'
import { emptyFolder, folderWith, run } from './process.js'

const DONE = 'Apart from its output, the command succeeded.'

describe.skipIf(!existsSync('/dev/full'))('a full disk behind the standard output', () => {
  test.each([
    [['--version']],
    [['--help']],
    [['list', '--help']],
    [['completion', 'bash']],
    [['schedule']],
    [['sign', 'hookline.config.json', '--secret', 's']],
    [['serve', '--check']],
  ])('is an error of %j', async (args) => {
    const folder = folderWith({
      sources: [{ name: 'web', writeKey: 'key' }],
      destinations: [{ name: 'crm', sources: ['web'], webhooks: [{ url: 'https://a.example/' }] }],
    })
    expect(await run(args, { folder, stdout: openSync('/dev/full', 'w') })).toEqual({
      code: 1,
      stdout: '',
      stderr: `Cannot write the output: ENOSPC: no space left on device. ${DONE}\n`,
    })
  })

  test('hides no error of the command: with --json it cannot be written, and is 1', async () => {
    const args = ['list', '--json', '--url', 'http://127.0.0.1:1']
    const { code, stderr } = await run(args, { stdout: openSync('/dev/full', 'w') })
    expect({ code, stderr }).toEqual({
      code: 1,
      stderr: 'Cannot write the output: ENOSPC: no space left on device.\n',
    })
  })
})

const ENV = {
  PATH: process.env['PATH'],
  RUN: `${process.execPath} ${join(inject('compiledDir'), 'command-line/start.js')}`,
}

const inShell = (script: string, folder = emptyFolder()) =>
  spawnSync('bash', ['-c', script], {
    stdio: ['ignore', 'pipe', 'pipe'],
    cwd: folder,
    encoding: 'utf8',
    env: ENV,
  })

describe.skipIf(process.platform !== 'linux')('output', () => {
  test('of which a file takes only the first part is an error', () => {
    const folder = emptyFolder()
    const { status, stderr } = inShell(
      "trap '' XFSZ; ulimit -f 1; $RUN completion bash > cut.txt",
      folder,
    )
    expect(readFileSync(join(folder, 'cut.txt')).length).toBe(1024)
    expect({ status, stderr }).toEqual({
      status: 1,
      stderr: `Cannot write the output: EFBIG: file too large. ${DONE}\n`,
    })
  })

  test('whose reader has ended is no error', () => {
    const { stdout, stderr } = inShell('$RUN completion bash | true; echo ended')
    expect({ stdout, stderr }).toEqual({ stdout: 'ended\n', stderr: '' })
  })

  test('of listen, whose reader has enough, is no error', async () => {
    const port = await freePort()
    const script = `set -o pipefail; $RUN listen --port ${port} | true`
    const child = spawn('bash', ['-c', script], { env: ENV, stdio: 'ignore' })
    const ended = once(child, 'close')
    const post = () =>
      fetch(`http://127.0.0.1:${port}/`, { method: 'POST', body: '{}' }).catch(() => undefined)
    while (child.exitCode === null) {
      await Promise.all([post(), new Promise((resolve) => setTimeout(resolve, 20))])
    }
    expect(await ended).toEqual([0, null])
  })
})

test.skipIf(process.platform !== 'linux')(
  'a limit of open files that is too low to start is named, with its fix',
  () => {
    for (const command of ['serve', 'list']) {
      const { status, stdout, stderr } = inShell(`ulimit -n 24; $RUN ${command}`)
      expect({ status, stdout, stderr }).toEqual({
        status: 1,
        stdout: '',
        stderr: expect.stringMatching(
          /^Too many files are open \(EMFILE\): this process may open 24 at once, .*`ulimit -n 65536` .*LimitNOFILE=65536.*\n$/,
        ) as string,
      })
    }
  },
)
