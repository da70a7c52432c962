import { describe, test } from 'vitest'
import { folderWith } from '../cli/process.js'
import { duplicatesAt, lateAt, startCustomer } from './customer.js'
import { post } from './load.js'
import { openFile, serve, settingsFor, storeIn, writeSettings } from './service.js'

describe.concurrent(
  'under load',
  () => {
    test('SIGTERM ends with 0 though an endpoint hangs, and what was answered 200 arrives once', async ({
      expect,
    }) => {
      await using well = await startCustomer()
      await using hung = await startCustomer()
      hung.mode = 'silent'
      const folder = folderWith(settingsFor({ well, hung }))
      await using first = await serve(folder)
      const { taken, refused, unanswered } = await post({
        url: first.url,
        name: 'load',
        answered: ({ taken }) => {
          if (taken.length === 40) first.kill('SIGTERM')
          return false
        },
      })
      const { code, stdout, stderr } = await first.ended
      expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
      expect(stdout).toMatch(/"stopped"\}\n$/)
      expect(refused).toEqual([])
      expect(hung.requests).toBeGreaterThan(0)

      const store = await storeIn(folder)
      const traces = await Promise.all(unanswered.map((ids) => store.trace(ids[0] ?? '')))
      // What the well one was sent is settled: nothing of it was under way any more.
      const late = lateAt(well, stdout)
      const inTime = [...well.accepted.keys()].filter((id) => !late.has(id))
      const settled = await Promise.all(inTime.map((id) => store.trace(id)))
      await store.close()
      const states = settled.flat().filter(({ destination }) => destination === 'well')
      expect(new Set(states.map(({ state }) => state))).toEqual(new Set(['done']))

      hung.mode = 'well'
      await using second = await serve(folder)
      const stored = unanswered.filter((_, i) => (traces[i] ?? []).length > 0)
      const expected = [...taken, ...stored].flat()
      await Promise.all([well.has(expected), hung.has(expected)])
      second.kill('SIGTERM')
      const last = await second.ended
      expect(last.code).toBe(0)
      for (const customer of [well, hung]) {
        expect(customer.wrong).toEqual([])
        expect(new Set(customer.accepted.keys())).toEqual(new Set(expected))
        expect(duplicatesAt(customer, lateAt(customer, stdout, last.stdout))).toBe(0)
      }
    })

    test('a second signal ends with 1, and loses nothing that was answered 200', async ({
      expect,
    }) => {
      await using hung = await startCustomer()
      hung.mode = 'silent'
      const folder = folderWith(settingsFor({ hung }))
      const answered: string[][] = []
      for (const name of ['a', 'b', 'c', 'd', 'e', 'f']) {
        await using service = await serve(folder)
        const { taken } = await post({
          url: service.url,
          name,
          connections: 16,
          textLength: 5_000,
          answered: ({ taken }) => {
            if (taken.length === 20) {
              service.kill('SIGTERM')
              void service.printed(/"signal":"SIGTERM"/).then(() => {
                service.kill('SIGINT')
              })
            }
            return false
          },
        })
        const { code, stderr } = await service.ended
        expect({ code, stderr }).toEqual({ code: 1, stderr: '' })
        answered.push(...taken)
      }
      const store = await storeIn(folder)
      const traces = await Promise.all(answered.flat().map((id) => store.trace(id)))
      await store.close()
      expect(traces.filter((trace) => trace.length !== 1)).toEqual([])
      const file = await openFile(folder)
      expect(file.prepare('PRAGMA integrity_check').all()).toEqual([{ integrity_check: 'ok' }])
      file.close()
    })

    test('a second signal ends it while SQLite waits for another program', async ({ expect }) => {
      await using well = await startCustomer()
      const folder = folderWith(settingsFor({ well }))
      await using service = await serve(folder)
      const program = await openFile(folder)
      program.exec('BEGIN IMMEDIATE')
      const posted = post({ url: service.url, name: 'waits', answered: () => false })
      const isReady = () => fetch(`${service.url}/readyz`).then(({ ok }) => ok)
      await expect.poll(isReady).toBe(false) // SQLite waits by now
      service.kill('SIGTERM')
      await service.printed(/"signal":"SIGTERM"/)
      service.kill('SIGINT')
      const { code, stderr } = await service.ended
      program.close()
      await posted
      expect({ code, stderr }).toEqual({ code: null, stderr: '' })
    })

    test('SIGHUP drops no request, whether the new settings are right or wrong', async ({
      expect,
    }) => {
      await using before = await startCustomer()
      await using after = await startCustomer()
      const folder = folderWith(settingsFor({ crm: before }))
      await using service = await serve(folder)
      const right = service.printed(/"msg":"reloaded"/)
      const wrong = service.printed(/"path":"retention".*"msg":"not reloaded/)
      let isOver = false
      const { taken, refused, unanswered } = await post({
        url: service.url,
        name: 'load',
        answered: ({ taken }) => {
          if (taken.length === 20) {
            writeSettings(folder, settingsFor({ crm: after }))
            service.kill('SIGHUP')
            void right.then(() => {
              writeSettings(folder, { ...settingsFor({ crm: before }), retention: '1h' })
              service.kill('SIGHUP')
            })
            void wrong.then(() => {
              isOver = true
            })
          }
          return isOver
        },
      })
      expect([refused, unanswered]).toEqual([[], []])
      const arrived = () => new Set([...before.accepted.keys(), ...after.accepted.keys()])
      // On a busy machine it takes minutes until all have arrived.
      await expect
        .poll(() => arrived().size, { timeout: 300_000, interval: 200 })
        .toBe(taken.flat().length)

      const seen = before.requests
      const last = await post({ url: service.url, name: 'last', answered: () => true })
      await after.has(last.taken.flat())
      service.kill('SIGTERM')
      const { code, stdout } = await service.ended
      expect(code).toBe(0)
      expect(before.requests).toBe(seen)
      expect([...before.wrong, ...after.wrong]).toEqual([])
      for (const customer of [before, after]) {
        expect(duplicatesAt(customer, lateAt(customer, stdout))).toBe(0)
      }
    })
  },
  600_000,
)
