import { readFileSync, statSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { describe, test } from 'vitest'
import { emptyFolder, folderWith, run, start } from './process.js'

type Raw = Record<string, unknown>

const settings = (fields: Raw = {}, name = 'crm'): Raw => ({
  listen: '127.0.0.1:0',
  sources: [{ name: 'web', writeKey: 'hush-key' }],
  destinations: [
    {
      name,
      sources: ['web'],
      sharedSecret: 'hush-secret',
      webhooks: [{ url: 'https://a.example.com/', headers: { 'X-Token': 'hush-header' } }],
    },
  ],
  adminToken: 'hush-admin-0123456',
  ...fields,
})

const file = (folder: string) => join(folder, 'hookline.config.json')
const LISTENING = /"url":"([^"]+)".*"msg":"listening"/

describe.concurrent('serve', () => {
  test('listens, reloads, keeps its settings when the new ones are wrong, and stops with 0', async ({
    expect,
  }) => {
    const folder = folderWith(settings())
    const service = start(['serve'], { folder })
    const [, url = ''] = await service.printed(LISTENING)
    const names = async () => (await fetch(url)).json() as Promise<unknown>
    expect(await names()).toEqual(['crm'])

    writeFileSync(file(folder), JSON.stringify(settings({}, 'erp')))
    service.kill('SIGHUP')
    await service.printed(/"destinations":\["erp"\],"msg":"reloaded"/)
    expect(await names()).toEqual(['erp'])

    writeFileSync(
      file(folder),
      JSON.stringify({ ...settings({ listen: 'x', retention: '1h' }), sources: [] }),
    )
    service.kill('SIGHUP')
    const [problems] = await service.printed(/\{"level":"error".*"path":"listen".*not reloaded.*/)
    expect(problems).toMatch(
      /"path":"sources".*"path":"retention".*not reloaded: the old settings stay/,
    )

    writeFileSync(file(folder), JSON.stringify(settings({ store: 'sqlite:elsewhere' }, 'new')))
    service.kill('SIGHUP')
    await service.printed(/"error":"store can not change\.".*not reloaded/)
    expect(await names()).toEqual(['erp'])

    service.kill('SIGTERM')
    const { code, stdout, stderr } = await service.ended
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    const lines = stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as Raw)
    expect(lines.map(({ msg }) => msg)).toEqual([
      'destination',
      'listening',
      'reloaded',
      'not reloaded: the old settings stay',
      'not reloaded: the old settings stay',
      'stopping: ending what is under way',
      'stopped',
    ])
    expect(lines[0]).toMatchObject({
      destination: 'crm',
      signed: true,
      endpoints: ['https://a.example.com/'],
    })
    expect(stdout).not.toContain('hush')
  })

  test('that can’t stop is ended by a second signal, with 1', async ({ expect }) => {
    const service = start(['serve', '--log-level', 'debug'], {
      folder: folderWith(settings({}, 'stuck')),
    })
    await service.printed(LISTENING)
    service.kill('SIGINT')
    await service.printed(/"signal":"SIGINT"/)
    service.kill('SIGINT')
    const { code, stdout } = await service.ended
    expect(code).toBe(1)
    expect(stdout).toContain('"level":"debug"')
  })

  test('without settings says where it looked, and prints some that are right', async ({
    expect,
  }) => {
    const folder = emptyFolder()
    const { code, stdout, stderr } = await run(['serve'], { folder })
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
    expect(stderr).toContain(
      `${folder}: there is no hookline.config.json, hookline.config.yaml or hookline.config.yml.\n`,
    )
    writeFileSync(file(folder), stderr.slice(stderr.indexOf('{')))
    const checked = await run(['serve', '--check'], { folder })
    expect(checked).toMatchObject({ code: 0, stderr: '' })
    expect(checked.stdout).toMatch(
      /^hookline\.config\.json is right:\n\nlisten: 127\.0\.0\.1:3300\n/,
    )
  })

  test('--init writes settings that are right, for its owner alone, and never over others', async ({
    expect,
  }) => {
    const folder = emptyFolder()
    const first = await run(['serve', '--init', '--check', '--json'], { folder })
    expect(first.code).toBe(0)
    expect(first.stderr).toMatch(/^Wrote hookline\.config\.json/)
    expect(JSON.parse(first.stdout)).toMatchObject({ ok: true, settings: { sources: ['web'] } })
    expect(statSync(file(folder)).mode & 0o777).toBe(0o600)
    const written = readFileSync(file(folder), 'utf8')
    expect(written).toMatch(/"writeKey": "[\da-f]{32}"[^]*"sharedSecret": "[\da-f]{32}"/)
    expect(first.stdout + first.stderr).not.toMatch(/[\da-f]{32}/)

    const second = await run(['serve', '--init'], { folder })
    expect(second).toEqual({
      code: 2,
      stdout: '',
      stderr:
        'Could not write hookline.config.json: it is there already. Leave out --init to run by it.\n',
    })
    expect(readFileSync(file(folder), 'utf8')).toBe(written)
  })

  test('tells every mistake in its settings, and does not start', async ({ expect }) => {
    const folder = folderWith(settings({ listen: 'x', sourcs: [], adminToken: 'hush' }))
    const { code, stdout, stderr } = await run(['serve'], { folder })
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
    expect(stderr).toMatch(
      /^hookline\.config\.json has 3 problems:\n {2}listen: expected [^]*\n {2}adminToken: expected [^]*\n {2}sourcs: there is no such field\. Did you mean sources\?\n$/,
    )
    expect(stderr).not.toContain('hush')
  })

  test('--check --json tells mistakes to a program', async ({ expect }) => {
    const folder = folderWith(settings({ retention: 'x' }))
    const { code, stdout, stderr } = await run(['serve', '--check', '--json'], { folder })
    expect({ code, stderr }).toEqual({ code: 2, stderr: '' })
    expect(JSON.parse(stdout)).toMatchObject({
      ok: false,
      code: 'settings_invalid',
      problems: [{ path: 'retention' }],
    })
  })

  test('on a port that is taken says which, and how to change it', async ({ expect }) => {
    const other = createServer()
    await new Promise<void>((resolve) => other.listen(0, '127.0.0.1', resolve))
    const { port } = other.address() as AddressInfo
    const folder = folderWith(settings({ listen: `127.0.0.1:${port}` }))
    const ended = await run(['serve'], { folder })
    other.close()
    expect(ended).toEqual({
      code: 1,
      stdout: '',
      stderr: `Could not listen on 127.0.0.1:${port}: another process listens there. Stop it, or set "listen" in hookline.config.json to another port.\n`,
    })
  })

  test('whose store is in use says so, without a stack', async ({ expect }) => {
    const folder = folderWith(settings({ store: 'sqlite:locked.db' }))
    const ended = await run(['serve'], { folder, env: { LOG_LEVEL: 'silent' } })
    expect(ended).toEqual({
      code: 1,
      stdout: '',
      stderr: 'Could not start: the store is in use by another process.\n',
    })
  })

  test('with a LOG_LEVEL that is none does not start', async ({ expect }) => {
    const ended = await run(['serve'], {
      folder: folderWith(settings()),
      env: { LOG_LEVEL: 'loud' },
    })
    expect(ended).toEqual({
      code: 2,
      stdout: '',
      stderr: 'LOG_LEVEL is wrong: Expected one of debug, info, warn, error, silent.\n',
    })
  })
})
