// @module-tag long
import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { linkSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { json } from 'node:stream/consumers'
import { describe, test } from 'vitest'
import { headOf } from '../../src/cli/import/progress-file.js'
import { call, folderOf, progressOf } from './import/history.js'
import { emptyFolder, run, start } from './process.js'

describe('import', { concurrent: true }, () => {
  test('says to the collector that its calls are bulk work', async ({ expect }) => {
    const lanes: unknown[] = []
    await using collector = createServer((request, response) => {
      lanes.push(request.headers['x-lane'])
      response.end('{"success":true}')
    }).listen(0, '127.0.0.1')
    await once(collector, 'listening')
    const { port } = collector.address() as AddressInfo
    const args = ['import', 'history.ndjson', '--to', `http://127.0.0.1:${port}`]
    expect(await run(args, { folder: folderOf(3, 0) })).toMatchObject({ code: 0 })
    expect(lanes).toEqual(['bulk'])
  })

  test('a file that grew after a last line without a line break keeps the ids of its lines', async ({
    expect,
  }) => {
    const ids = new Map<unknown, Set<unknown>>()
    await using collector = createServer((request, response) => {
      void json(request).then((body) => {
        const { batch } = body as { batch: { userId: string; messageId: string }[] }
        for (const { userId, messageId } of batch) {
          ids.set(userId, (ids.get(userId) ?? new Set()).add(messageId))
        }
        response.end('{"success":true}')
      })
    }).listen(0, '127.0.0.1')
    await once(collector, 'listening')
    const { port } = collector.address() as AddressInfo
    const folder = folderOf(2, 0)
    const file = join(folder, 'history.ndjson')
    const lines = readFileSync(file, 'utf8').trim()
    const args = ['import', 'history.ndjson', '--to', `http://127.0.0.1:${port}`, '--json']
    const outcome = async (...more: string[]) => {
      const { stdout } = await run([...args, ...more], { folder })
      return JSON.parse(stdout) as unknown
    }
    writeFileSync(file, lines)
    await outcome()
    writeFileSync(file, `${lines}\n${JSON.stringify(call(3))}`)
    expect(await outcome()).toMatchObject({ accepted: 1, fromLine: 3, toLine: 3 })
    await outcome('--restart')
    expect(Array.from(ids.values(), ({ size }) => size)).toEqual([1, 1, 1])

    writeFileSync(file, `${lines}\n${JSON.stringify(call(3))}0\n`)
    expect(await outcome()).toEqual({
      error: {
        code: 'usage',
        message:
          'Line 3 of history.ndjson was imported before it was complete. Give --restart to import the whole file.',
      },
    })
  })

  test('says that nothing was accepted while the collector answers with errors', async ({
    expect,
  }) => {
    await using collector = createServer((_request, response) => {
      response.writeHead(500).end('{"success":false}')
    }).listen(0, '127.0.0.1')
    await once(collector, 'listening')
    const { port } = collector.address() as AddressInfo
    const args = ['import', 'history.ndjson', '--to', `http://127.0.0.1:${port}`]
    const importing = start(args, { folder: folderOf(1, 0) })
    const [line] = await importing.printed(/importing: .+still trying/)
    expect(line).toMatch(/ nothing was accepted for \d+ s, still trying$/)
    importing.kill('SIGTERM')
    await importing.ended
  })

  test.skipIf(process.platform === 'win32')(
    'a pipe and a folder are refused before anything is sent or read',
    async ({ expect }) => {
      const folder = folderOf(1, 0)
      execFileSync('mkfifo', [join(folder, 'pipe.ndjson')])
      const imported = (file: string) =>
        run(['import', file, '--to', 'http://127.0.0.1:1'], { folder, input: '{}' })
      expect(await imported('pipe.ndjson')).toEqual({
        code: 2,
        stdout: '',
        stderr:
          'Cannot import pipe.ndjson: expected a file, got a pipe or a device. Give - instead: cat pipe.ndjson | hookline-destination import -\n',
      })
      expect((await imported('/dev/stdin')).stderr).toMatch(/ got a pipe or a device\. Give - /)
      expect(await imported('.')).toEqual({
        code: 2,
        stdout: '',
        stderr: 'Cannot import .: expected a file, got a folder. Name a file in it.\n',
      })
    },
  )

  test('the file of --bad has each refused line, and a file that is named later has the first 100', async ({
    expect,
  }) => {
    const folder = folderOf(0, 0)
    writeFileSync(join(folder, 'bad.ndjson'), '{bad\n'.repeat(150))
    const args = ['import', 'bad.ndjson', '--key', 'k', '--to', 'http://127.0.0.1:1', '--json']
    const named = (file: string) =>
      readFileSync(join(folder, file), 'utf8')
        .trim()
        .split('\n')
        .map((text) => (JSON.parse(text) as { line: number }).line)
    for (const counts of [
      { bad: 150, badBefore: 0 },
      { bad: 0, badBefore: 150 },
    ]) {
      const { code, stdout } = await run([...args, '--bad', 'refused'], { folder })
      expect(code).toBe(1)
      expect(JSON.parse(stdout)).toMatchObject(counts)
      expect(named('refused')).toEqual(Array.from({ length: 150 }, (_, i) => i + 1))
    }
    const later = await run([...args, '--bad', 'later'], { folder })
    expect(later.stderr).toContain(
      'later gets the first 100 of the 150 lines that an earlier import refused. To have all of them, import the whole file with --restart.\n',
    )
    expect(named('later')).toEqual(Array.from({ length: 100 }, (_, i) => i + 1))
    const { stdout } = await run([...args, '--restart'], { folder })
    expect(JSON.parse(stdout)).toMatchObject({ bad: 150, badBefore: 0 })
  })

  test('lines that were refused with other options are to be imported again, not corrected', async ({
    expect,
  }) => {
    const folder = folderOf(0, 0)
    writeFileSync(join(folder, 'plain.ndjson'), '{"event":"E","userId":"u"}\n')
    const args = ['import', 'plain.ndjson', '--key', 'k', '--to', 'http://127.0.0.1:1']
    expect((await run(args, { folder })).stdout).toContain('1 line was refused.\n')
    expect((await run(args, { folder })).stdout).toContain('Correct it, then')
    // What was refused stays of the first import, whatever options come between.
    for (const type of ['track', 'page']) {
      const { code, stdout } = await run([...args, '--type', type], { folder })
      expect({ code, stdout }).toEqual({
        code: 1,
        stdout:
          'There are no new lines to import.\n' +
          'An earlier import of this file refused 1 line. It had no --type, --map or --format. ' +
          'To read the lines as this command says, add --restart: calls that were accepted are forwarded once.\n',
      })
    }
  })

  test.for(['history.ndjson', './history.ndjson.progress', 'none/bad'])(
    '--bad %s is refused, and changes nothing',
    async (bad, { expect }) => {
      const folder = folderOf(3, 1)
      const where = ['--key', 'k', '--to', 'http://127.0.0.1:1', '--bad', bad]
      const ended = await run(['import', 'history.ndjson', ...where], { folder })
      expect(ended).toMatchObject({ code: 2, stdout: '' })
      expect(ended.stderr).toMatch(/Name another file( with --bad)?\.\n$/)
      expect(readFileSync(join(folder, 'history.ndjson'), 'utf8')).toContain('{"type":')
    },
  )

  test.for([
    ['history.ndjson', '--bad', 'link'],
    ['history.ndjson', '--bad', 'hard'],
    ['history.ndjson', '--bad', 'linked/history.ndjson'],
    ['link', '--format', 'ndjson', '--bad', 'history.ndjson'],
    ['history.ndjson', '--progress', './history.ndjson', '--restart'],
    ['history.ndjson', '--progress', 'link', '--restart'],
    ['history.ndjson', '--progress', 'history.ndjson', '--dry-run', '--bad', 'hard'],
  ])('%s %s %s does not replace the file to import', async (args, { expect }) => {
    const folder = folderOf(3, 1)
    const before = readFileSync(join(folder, 'history.ndjson'), 'utf8')
    symlinkSync('history.ndjson', join(folder, 'link'))
    linkSync(join(folder, 'history.ndjson'), join(folder, 'hard'))
    symlinkSync('.', join(folder, 'linked'))
    const where = ['--key', 'k', '--to', 'http://127.0.0.1:1']
    const ended = await run(['import', ...args, ...where], { folder })
    expect(ended).toMatchObject({ code: 2, stdout: '' })
    expect(ended.stderr).toMatch(
      / would replace (a file of this|the file to) import\. Name another/,
    )
    expect(readFileSync(join(folder, 'history.ndjson'), 'utf8')).toBe(before)
  })

  test('a CSV record of several lines is named by the first of them', async ({ expect }) => {
    const folder = emptyFolder()
    const csv = [
      'user_id,event,properties.n',
      'u1,"Pa\nid",1',
      ',"Pa\n\nid",2',
      'u3,"Pa\nid"',
      '"u\n4",\xff,4',
      '',
    ]
    writeFileSync(join(folder, 'a.csv'), csv.join('\n'), 'latin1')
    const args = ['import', 'a.csv', '--type', 'track', '--dry-run', '--bad', 'bad']
    const ended = await run(args, { folder })
    expect(ended.code).toBe(1)
    const bad = readFileSync(join(folder, 'bad'), 'utf8').trim().split('\n')
    expect(bad.map((text) => (JSON.parse(text) as { line: number }).line)).toEqual([4, 7, 9])
    expect(ended.stderr).toContain('line 4: ')
  })

  test('a wrong key stops it at once, and nothing counts as imported', async ({ expect }) => {
    const folder = folderOf(500, 0)
    const serving = start(['serve', '--no-pretty'], { folder })
    const [, url = ''] = await serving.printed(/"url":"([^"]+)"/)
    const args = ['import', 'history.ndjson', '--to', url]
    const ended = await run([...args, '--key', 'wrong'], { folder })
    expect(ended.code).toBe(1)
    expect(ended.stderr).toMatch(
      /The import stopped: .*401.*\nFix this, then run the same command to continue\./,
    )
    const again = await run([...args, '--json'], { folder })
    expect(JSON.parse(again.stdout)).toMatchObject({ accepted: 500, bad: 0, fromLine: 1 })
    serving.kill('SIGTERM')
    await serving.ended
  })

  describe.each([
    {
      status: 301,
      body: '',
      why: /: The endpoint answered 301\. Redirects are not followed: make http:\S+\/v1\/batch the endpoint\.\nIf that URL is the collector's, give it with --to, and --continue to send the rest there\. Otherwise fix the redirect, then run the same command to continue\.\n$/,
    },
    {
      status: 410,
      body: '{"message":"Gone"}',
      why: /: The endpoint answered 410.*\nFix this, then run the same command to continue\.\n$/,
    },
    {
      status: 400,
      body: '<html><title>400 The plain HTTP request was sent to HTTPS port</title></html>',
      why: /: The endpoint answered 400.*\nA collector does not answer with a page of HTML: another server did\. Check the URL of --to, then run the same command to continue\.\n$/,
    },
  ])('a server in front of the collector that answers $status', ({ status, body, why }) => {
    test('stops it, no line counts as refused, and the rest is sent later', async ({ expect }) => {
      await using collector = await collect()
      const folder = folderOf(2_000, 0)
      const args = ['import', 'history.ndjson', '--bad', 'bad', '--to']
      await using front = await frontOf(collector, (response) => {
        const location = status === 301 ? { location: `${collector.url}/v1/batch` } : {}
        response.writeHead(status, location).end(body)
      })
      const stopped = await run([...args, front.url], { folder })
      expect(stopped).toMatchObject({ code: 1, stdout: '' })
      expect(stopped.stderr).toMatch(why)
      expect(readFileSync(join(folder, 'bad'), 'utf8')).toBe('')
      const { line } = progressOf(folder)
      expect(line).toBe(collector.users.length)
      expect(line).toBeGreaterThan(0)

      const more = status === 301 ? ['--continue'] : []
      front.isWrong = false
      const to = status === 301 ? collector.url : front.url
      const again = await run([...args, to, ...more, '--json'], { folder })
      expect(JSON.parse(again.stdout)).toMatchObject({
        complete: true,
        accepted: 2_000 - line,
        bad: 0,
        badBefore: 0,
      })
      expect(collector.users).toHaveLength(2_000)
    })
  })

  test('--dry-run says what is wrong with which line, and needs nobody', async ({ expect }) => {
    const folder = emptyFolder()
    const csv = 'user_id,event,properties.total\nu1,Paid,3\n,Paid,4\nu3,,5\n'
    writeFileSync(join(folder, 'a.csv'), csv)
    const ended = await run(['import', 'a.csv', '--type', 'track', '--dry-run'], { folder })
    expect(ended.code).toBe(1)
    expect(ended.stderr).toMatch(/^line 3: .*userId.*\nline 4: .*event.*\n$/)
    expect(ended.stdout).toBe(
      '1 call is valid. Nothing was sent.\n2 lines were refused.\n1 call has no timestamp. It gets the current time.\n',
    )
  })

  test('refuses a field __proto__ by its name, as any other unknown field', async ({ expect }) => {
    const folder = emptyFolder()
    const line =
      '{"type":"track","userId":"u","event":"E","__proto__":{"properties":{"a":1},"userId":"v"}}'
    writeFileSync(join(folder, 'a.ndjson'), `${line}\n`)
    const ended = await run(['import', 'a.ndjson', '--dry-run'], { folder })
    expect(ended.stderr).toMatch(/^line 1: track\(\) has no field "__proto__"\. .*\n$/)
    expect(ended.code).toBe(1)
  })

  test('escapes what the file has that could control a terminal or change the order of a text', async ({
    expect,
  }) => {
    const folder = emptyFolder()
    const [text, shown] = ['\u009b2J\u202e', '\\u009b2J\\u202e']
    const fields = '"type":"track","userId":"u","event":"E","timestamp":"2020-01-01"'
    const lines = [
      `{${fields},"${text}":1}`,
      `{"type":"${text}"}`,
      `{${fields},"properties":{"${text}":1e400}}`,
    ]
    writeFileSync(join(folder, 'a.ndjson'), lines.join('\n'))
    writeFileSync(join(folder, 'a.csv'), `event,${text}\n`)
    const ndjson = await run(['import', 'a.ndjson', '--dry-run'], { folder })
    expect(ndjson.stderr.replaceAll(shown, 'TEXT')).toMatch(
      /^line 1: track\(\) has no field "TEXT"\. .*\nline 2: type: .* got "TEXT"\nline 3: properties\["TEXT"\]: .*\n$/,
    )
    const csv = await run(['import', 'a.csv', '--dry-run'], { folder })
    expect(csv.stderr.replaceAll(shown, 'TEXT')).toMatch(
      /^The import stopped: The column "TEXT" is not a field of a call: .*\nFix this, .*\n$/,
    )
    const mapped = ['import', 'a.csv', '--dry-run', '--map', `${text}=`, '--map', 'none=event']
    expect((await run(mapped, { folder })).stderr).toMatch(
      /expected one of "event", "\\u009b2J\\u202e"\.\n$/,
    )
  })

  test('says which numbers of which line JavaScript cannot hold, and imports the line', async ({
    expect,
  }) => {
    const folder = emptyFolder()
    const csv =
      'userId,event,timestamp,properties.total\nu1,Paid,2020-01-01,3\nu2,Paid,2020-01-01,1e400\n'
    writeFileSync(join(folder, 'a.csv'), csv)
    const args = ['import', 'a.csv', '--type', 'track', '--dry-run']
    const ended = await run(args, { folder })
    expect(ended.code).toBe(0)
    expect(ended.stderr).toBe(
      'line 3: properties.total: The number 1e400 is forwarded as null, because it is too large for JavaScript. Send it as a string to keep its value.\n',
    )
    expect(ended.stdout).toBe(
      '2 calls are valid. Nothing was sent.\n1 number is forwarded with another value.\n',
    )
    const { stdout } = await run([...args, '--json'], { folder })
    expect(JSON.parse(stdout)).toMatchObject({ accepted: 2, bad: 0, changedNumbers: 1 })
  })

  test('says nothing about numbers that are not forwarded', async ({ expect }) => {
    const folder = emptyFolder()
    const fields = '"userId":"u","event":"E","timestamp":"2020-01-01"'
    const lines = [
      `{"type":"track",${fields},"integrations":{"Webhooks":false},"properties":{"n":1e400}}`,
      `{"type":"track",${fields},"integrations":{"x":1e400},"properties":{"n":1e400}}`,
    ]
    writeFileSync(join(folder, 'a.ndjson'), lines.join('\n'))
    const ended = await run(['import', 'a.ndjson', '--dry-run'], { folder })
    expect(ended.stderr).toMatch(/^line 2: properties\.n: The number 1e400 is .*\n$/)
    expect(ended.code).toBe(0)
  })

  test.for(['none/x', '.'])(
    'a progress file that can not be written is refused before anything is sent: %s',
    async (progress, { expect }) => {
      const folder = folderOf(3, 1)
      const where = ['--key', 'k', '--to', 'http://127.0.0.1:1', '--progress', progress]
      const ended = await run(['import', 'history.ndjson', ...where, '--restart'], { folder })
      expect(ended).toMatchObject({ code: 2, stdout: '' })
      expect(ended.stderr).toMatch(
        /^Cannot save the progress in \S+: .+\. Name another file with --progress\.\n$/,
      )
    },
  )

  test('progress that can no longer be saved is reported once, and the import continues', async ({
    expect,
  }) => {
    const folder = folderOf(1_000, 1)
    mkdirSync(join(folder, 'p'))
    const args = ['--key', 'k', '--to', 'http://127.0.0.1:1', '--progress', 'p/x', '--rate', '1']
    const importing = start(['import', 'history.ndjson', ...args], { folder })
    await importing.printed(/^line 1: /m)
    rmSync(join(folder, 'p'), { recursive: true })
    await importing.printed(/Cannot save the progress in p\/x: ENOENT.* Name another file/)
    importing.kill('SIGTERM')
    const { code, stdout, stderr } = await importing.ended
    expect(code).toBe(3)
    expect(stdout).toContain('Stopped after line 1.')
    expect(stderr.match(/Cannot save/g)).toHaveLength(1)
    expect(stderr).not.toContain('    at ')
  })

  test('equal lines of two files are both sent with ids of their own, and a file that is imported again is not', async ({
    expect,
  }) => {
    const ids: string[] = []
    await using collector = createServer((request, response) => {
      void json(request).then((body) => {
        const { batch } = body as { batch: { messageId: string }[] }
        ids.push(...batch.map(({ messageId }) => messageId))
        response.end('{"success":true}')
      })
    }).listen(0, '127.0.0.1')
    await once(collector, 'listening')
    const { port } = collector.address() as AddressInfo
    const folder = folderOf(1, 0)
    const progress = JSON.parse(
      '{"head":"0:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855","line":0,"offset":0,"accepted":0,"bad":0}',
    ) as object
    writeFileSync(join(folder, 'earlier.progress'), JSON.stringify(progress))
    writeFileSync(join(folder, 'b.ndjson'), readFileSync(join(folder, 'history.ndjson')))
    for (const args of [
      ['history.ndjson'],
      ['b.ndjson'],
      ['b.ndjson', '--restart'],
      ['b.ndjson', '--progress', 'p1', '--name', 'history.ndjson'],
      ['b.ndjson', '--progress', 'earlier.progress'],
      ['b.ndjson', '--progress', 'earlier.progress', '--restart'],
    ]) {
      const all = ['import', ...args, '--to', `http://127.0.0.1:${port}`]
      expect(await run(all, { folder })).toMatchObject({ code: 0 })
    }
    const [first, second, again, named, earlier, restarted] = ids
    expect(ids).toHaveLength(6)
    expect(new Set([first, second, earlier]).size).toBe(3)
    expect([again, named, restarted]).toEqual([second, first, earlier])
  })

  test('another collector or write key gets no rest without its beginning, unless --continue says so', async ({
    expect,
  }) => {
    await using test = await collect()
    await using prod = await collect()
    const folder = folderOf(3, 0)
    const file = join(folder, 'history.ndjson')
    const to = (url: string, ...more: string[]) =>
      run(['import', 'history.ndjson', '--to', url, ...more], { folder })
    const refused = (why: string) => ({ code: 2, stdout: '', stderr: `${why}\n` })

    expect(await to(test.url, '--key', 'one')).toMatchObject({ code: 0 })
    writeFileSync(file, `${readFileSync(file, 'utf8')}${JSON.stringify(call(4))}\n`)
    expect(await to(prod.url, '--key', 'one')).toEqual(
      refused(
        `history.ndjson was imported up to line 3 to ${test.url}/v1/batch, but this command sends to ${prod.url}/v1/batch. ` +
          'If this is another collector, give --restart to send it the whole file, or --progress OTHER to also keep this progress. ' +
          'If the same collector has a new address, give --continue to send the rest there.',
      ),
    )
    expect(await to(test.url, '--key', 'two')).toEqual(
      refused(
        'history.ndjson was imported up to line 3 with another write key. ' +
          'If this is the key of another source, give --restart to send it the whole file, or --progress OTHER to also keep this progress. ' +
          'If the key of the same source was changed, give --continue to send the rest with the new key.',
      ),
    )
    expect([test.users.length, prod.users]).toEqual([3, []])

    await to(prod.url, '--key', 'one', '--progress', 'prod.progress')
    expect(prod.users.splice(0)).toEqual(['u1', 'u2', 'u3', 'u4'])
    await to(test.url, '--key', 'two', '--continue')
    expect(test.users.splice(0)).toEqual(['u1', 'u2', 'u3', 'u4'])
    expect(await to(test.url, '--key', 'two')).toMatchObject({
      code: 0,
      stdout: 'There are no new lines to import.\n',
    })
    await to(prod.url, '--key', 'two', '--restart')
    expect(prod.users).toEqual(['u1', 'u2', 'u3', 'u4'])
    expect(readFileSync(join(folder, 'history.ndjson.progress'), 'utf8')).not.toContain('two')
    expect((await to(prod.url, '--restart', '--continue')).stderr).toMatch(
      /'--continue' cannot be used with option '--restart'/,
    )
  })

  test('the same collector may be spelled in another way, and nothing accepted is of no collector', async ({
    expect,
  }) => {
    await using collector = await collect()
    const folder = folderOf(3, 1)
    const to = (url: string) => run(['import', 'history.ndjson', '--to', url, '--json'], { folder })
    await using refusing = createServer((_request, response) => {
      response.writeHead(401).end('{"success":false}')
    }).listen(0, '127.0.0.1')
    await once(refusing, 'listening')
    const { port } = refusing.address() as AddressInfo
    expect((await to(`http://127.0.0.1:${port}`)).stdout).toContain('401')
    expect(progressOf(folder).line).toBe(1)
    expect(JSON.parse((await to(collector.url)).stdout)).toMatchObject({ accepted: 2 })
    for (const url of [
      `${collector.url}/`,
      `${collector.url}/v1/batch/`,
      collector.url.replace('http', 'HTTP'),
    ]) {
      expect(JSON.parse((await to(url)).stdout)).toMatchObject({ accepted: 0, badBefore: 1 })
    }
  })

  test('progress of an earlier version goes on, and says that it does not know its collector', async ({
    expect,
  }) => {
    await using collector = await collect()
    const folder = folderOf(3, 0)
    const path = join(folder, 'history.ndjson.progress')
    const args = ['import', 'history.ndjson', '--to', collector.url]
    await run(args, { folder })
    const { target, ...earlier } = JSON.parse(readFileSync(path, 'utf8')) as { target?: object }
    expect(target).toBeDefined()
    writeFileSync(path, JSON.stringify(earlier))
    expect(await run(args, { folder })).toEqual({
      code: 0,
      stdout: 'There are no new lines to import.\n',
      stderr:
        'The progress was saved by an earlier version, which did not save the collector and the write key. If they were others, give --restart to send the whole file.\n' +
        'Continuing after line 3, where an earlier import stopped.\n',
    })
  })

  test('--name of an import that has another one is refused, also with --restart', async ({
    expect,
  }) => {
    await using collector = await collect()
    const folder = folderOf(3, 0)
    const args = ['import', 'history.ndjson', '--to', collector.url]
    for (const more of [[], ['--name', 'history.ndjson'], ['--restart']]) {
      expect(await run([...args, ...more], { folder })).toMatchObject({ code: 0 })
    }
    for (const more of [[], ['--restart']]) {
      expect(await run([...args, '--name', 'b', ...more], { folder })).toEqual({
        code: 2,
        stdout: '',
        stderr:
          'The import of history.ndjson has the name "history.ndjson", and keeps it, so that no call is forwarded twice. ' +
          'Leave out --name. To import the file a second time with ids of its own, also give --progress OTHER.\n',
      })
    }
    expect(collector.users).toHaveLength(6)
  })

  test('a file that was corrected and is imported again with --restart keeps its name and its ids', async ({
    expect,
  }) => {
    await using collector = await collect()
    const folder = folderOf(3, 2)
    const file = join(folder, 'history.ndjson')
    const args = ['import', 'history.ndjson', '--to', collector.url]
    expect(await run([...args, '--name', 'shop-2025'], { folder })).toMatchObject({ code: 1 })
    const [first, third] = collector.ids
    const lines = readFileSync(file, 'utf8')
    writeFileSync(file, lines.replace('{"type":\n', `${JSON.stringify(call(2))}\n`))
    const refused = await run(args, { folder })
    expect(refused.code).toBe(2)
    expect(refused.stderr).toMatch(/is not the file that was imported .* give --restart/)
    const restarted = await run([...args, '--restart'], { folder })
    expect(restarted.code).toBe(0)
    expect(restarted.stderr).toContain('history.ndjson keeps the name "shop-2025" of the import')
    expect(collector.ids.slice(2)).toEqual([first, expect.any(String), third])
    expect(progressOf(folder)).toMatchObject({ name: 'shop-2025' })
  })

  test('another file in the place of one that was imported gets the name that --restart is given', async ({
    expect,
  }) => {
    await using collector = await collect()
    const folder = folderOf(2, 0)
    const file = join(folder, 'history.ndjson')
    const args = ['import', 'history.ndjson', '--to', collector.url]
    expect(await run([...args, '--name', 'jan'], { folder })).toMatchObject({ code: 0 })
    // Its second line is the same, and another call.
    writeFileSync(file, readFileSync(file, 'utf8').replace('u1', 'another'))
    const refused = await run([...args, '--name', 'feb'], { folder })
    expect(refused.stderr).toMatch(/If it is another file, also give --name/)
    expect(await run([...args, '--restart', '--name', 'feb'], { folder })).toMatchObject({
      code: 0,
    })
    expect(new Set(collector.ids).size).toBe(4)
    expect(progressOf(folder)).toMatchObject({ name: 'feb' })
  })

  test('a signal that comes after the last line stops it while the collector is away, and the next one continues', async ({
    expect,
  }) => {
    const folder = folderOf(3, 2)
    const args = ['import', 'history.ndjson', '--key', 'k', '--to', 'http://127.0.0.1:1']
    const importing = start(args, { folder })
    await importing.printed(/^line 2: /m)
    importing.kill('SIGTERM')
    const { code, stdout, stderr } = await importing.ended
    expect({ code, stdout }).toEqual({
      code: 3,
      stdout: expect.stringContaining('Run the same command to continue.') as string,
    })
    expect(stderr).toContain('Stopping within 5 s. The next signal ends the import at once.\n')
  })

  test('a signal after which the last calls are accepted does not make it incomplete', async ({
    expect,
  }) => {
    const answers: (() => void)[] = []
    await using collector = createServer((request, response) => {
      request.resume().once('end', () => {
        answers.push(() => response.end('{"success":true}'))
      })
    }).listen(0, '127.0.0.1')
    await once(collector, 'listening')
    const { port } = collector.address() as AddressInfo
    const args = ['import', 'history.ndjson', '--to', `http://127.0.0.1:${port}`]
    const importing = start(args, { folder: folderOf(3, 0) })
    await expect.poll(() => answers.length).toBe(1)
    importing.kill('SIGTERM')
    await importing.printed(/Stopping within 5 s/)
    answers[0]?.()
    const { code, stdout } = await importing.ended
    expect({ code, stdout }).toEqual({
      code: 0,
      stdout: expect.stringMatching(/^Imported 3 calls \(.*\)\.\n$/) as string,
    })
  })

  test('a signal stops it while the standard input has nothing to read', async ({ expect }) => {
    const args = ['import', '-', '--key', 'k', '--to', 'http://127.0.0.1:1']
    const importing = start(args, { input: '{"type":\n' })
    await importing.printed(/^line 1: /m)
    importing.kill('SIGINT')
    const { code, stderr } = await importing.ended
    expect(code).toBe(3)
    expect(stderr).not.toContain('    at ')
  })

  test('names an id that JavaScript cannot hold as it is in the file', async ({ expect }) => {
    const folder = emptyFolder()
    const line = '{"type":"track","userId":1234567890123456789,"event":"E"}'
    writeFileSync(join(folder, 'a.ndjson'), line)
    const ended = await run(['import', 'a.ndjson', '--dry-run'], { folder })
    expect(ended.stderr).toBe(
      'line 1: userId: expected a string or a whole number below 2^53, got 1234567890123456789\n',
    )
  })

  test('--map with a column that the file does not have is refused, and nothing is sent', async ({
    expect,
  }) => {
    const folder = emptyFolder()
    writeFileSync(join(folder, 'a.csv'), 'type,userId,what\ntrack,u,E\n')
    const where = ['--key', 'k', '--to', 'http://127.0.0.1:1']
    const maps = ['--map', 'what=event', '--map', 'nocol=properties.x']
    const ended = await run(['import', 'a.csv', ...where, ...maps], { folder })
    expect(ended).toMatchObject({ code: 2, stdout: '' })
    expect(ended.stderr).toBe(
      'The file has no column "nocol", which --map names: expected one of "type", "userId", "what".\n',
    )
  })

  test.for<[string[], RegExp]>([
    [
      ['import', 'history.txt'],
      /history\.txt is not clear from its name\. Give --format ndjson or csv/,
    ],
    [['import', 'none.ndjson', '--dry-run'], /Cannot read none\.ndjson: /],
    [
      ['import', '-', '--progress', 'p'],
      /^--progress needs a file: the progress of the standard input is not saved/,
    ],
    [['import', 'history.ndjson', '--map', 'total'], /Expected a column and its field/],
    [
      ['import', 'history.csv', '--map', 'email=event', '--map', 'email='],
      /'email=' is invalid.*The column is given twice\. Give each column once\./,
    ],
    [
      ['import', 'history.csv', '--map', 'email=bogus'],
      /--map gives the column "email" the field "bogus", which calls do not have/,
    ],
    [['import', 'history.ndjson', '--key', 'k'], /is not the file that was imported up to line 9/],
  ])('%j is refused, with the fix', async ([args, message], { expect }) => {
    const folder = folderOf(3, 0)
    writeFileSync(join(folder, 'history.txt'), '')
    const progress = { head: '5:none', line: 9, offset: 90, accepted: 9, bad: 0 }
    writeFileSync(join(folder, 'history.ndjson.progress'), JSON.stringify(progress))
    const ended = await run(args, { folder })
    expect(ended.stderr).toMatch(message)
    expect(ended.code).toBe(2)
  })

  test.for<[what: string, change: object, message: RegExp]>([
    ['a line below 0', { line: -5 }, /is not a valid progress file/],
    ['half a line', { line: 1.5 }, /is not a valid progress file/],
    ['no count', { accepted: 'all' }, /is not a valid progress file/],
    ['a name that is no text', { name: 5 }, /is not a valid progress file/],
    ['refused lines without a problem', { refused: [{ line: 1 }] }, /is not a valid progress file/],
    ['no collector', { target: {} }, /is not a valid progress file/],
    [
      'a place behind the end of the file, which was cut',
      { offset: 1_000_000 },
      /history\.ndjson is shorter than it was when it was imported up to line 1\. Give --restart/,
    ],
  ])('progress with %s is refused', async ([, change, message], { expect }) => {
    const folder = folderOf(3, 0)
    const head = headOf(join(folder, 'history.ndjson'))
    const progress = { head, line: 1, offset: 50, accepted: 1, bad: 0, ...change }
    writeFileSync(join(folder, 'history.ndjson.progress'), JSON.stringify(progress))
    const where = ['--key', 'k', '--to', 'http://127.0.0.1:1']
    const ended = await run(['import', 'history.ndjson', ...where], { folder })
    expect(ended.stderr).toMatch(message)
    expect(ended.code).toBe(2)
  })
})

/** A collector that accepts all calls, and keeps their users and their ids. */
async function collect() {
  const users: string[] = []
  const ids: string[] = []
  const server = createServer((request, response) => {
    void json(request).then((body) => {
      const { batch } = body as { batch: { userId: string; messageId: string }[] }
      users.push(...batch.map(({ userId }) => userId))
      ids.push(...batch.map(({ messageId }) => messageId))
      response.end('{"success":true}')
    })
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  return {
    users,
    ids,
    url: `http://127.0.0.1:${port}`,
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
  }
}

/** Starts a server in front of a collector. It passes the first request on, and is wrong then until it is told not to be. */
async function frontOf(
  collector: Awaited<ReturnType<typeof collect>>,
  answerWrong: (response: ServerResponse) => void,
) {
  let requests = 0
  const server = createServer((request, response) => {
    requests++
    if (front.isWrong && requests > 1) {
      request.resume().once('end', () => {
        answerWrong(response)
      })
      return
    }
    void json(request)
      .then((batch) => fetch(collector.url, { method: 'POST', body: JSON.stringify(batch) }))
      .then(async (answer) => response.end(await answer.text()))
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const front = {
    isWrong: true,
    url: `http://127.0.0.1:${port}`,
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
  }
  return front
}
