import { writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { dirname } from 'node:path'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { WireMessage } from '../src/types.js'
import { runScript, startCollector, type Collector, type Ended } from './collector.js'
import { temporary } from './spool/directory.js'
import { listening } from './webhook/adapters/listen.js'

// An interval that no test lives to see: what arrives, arrived because the script ended.
const OPTIONS = 'flushAfter: 2_000_000_000'

function run(collector: Collector, source: string, flags: string[] = []): Promise<Ended> {
  return runScript(source, { env: { ANALYTICS_ENDPOINT: collector.url }, flags })
}

/** Runs a script whose endpoint is down. Nobody listens on port 1; the free port of a server that is shut may be taken again. */
function runInOutage(source: string): Promise<Ended> {
  return runScript(source, { env: { ANALYTICS_ENDPOINT: 'http://127.0.0.1:1' } })
}

/** The flags that change the clock before the client takes it. */
function first(source: string): string[] {
  const module = `import timers from 'node:timers'
const { setTimeout } = timers
${source}`
  return ['--import', `data:text/javascript,${encodeURIComponent(module)}`]
}

const arrivedAt = ({ accepted }: Collector) => accepted.map(({ event }) => event)

/** Ended by itself, without a complaint. */
const fine = (stdout: string) => ({ code: 0, signal: null, stdout, stderr: '' })

const say = '(name) => (error) => console.log(name, error?.code ?? "ok")'
const report = 'onFailed: ({ messages, error }) => console.log("lost", messages.length, error.code)'

// Each is a process of its own, most of which wait for something: side by side they take little.
describe.concurrent('a script that ends', { timeout: 120_000 }, () => {
  test('after one track delivers it at once, and is not held by the interval', async ({
    expect,
    onTestFinished,
  }) => {
    const collector = await startCollector(onTestFinished)
    const ended = await run(
      collector,
      `const say = ${say}
       const analytics = new Analytics('k', { ${OPTIONS} })
       analytics.track({ userId: 'u', event: 'e' }, say('e'))`,
    )
    expect(ended).toEqual(fine('e ok\n'))
    expect(arrivedAt(collector)).toEqual(['e'])
  })

  test('with a queue of many loses none', async ({ expect, onTestFinished }) => {
    const collector = await startCollector(onTestFinished)
    const ended = await run(
      collector,
      `for (const flushAt of [1, 20, 10_000]) {
         const analytics = new Analytics('k', { ${OPTIONS}, flushAt })
         for (let i = 0; i < 505; i++) analytics.track({ userId: 'u', event: 'e' + i })
       }`,
      // A second lasts ten here: a machine that is busy may take longer than the grace to answer some of so many requests.
      first(`const now = performance.now.bind(performance)
       timers.setTimeout = (act, ms) => setTimeout(act, Math.min(ms * 10, 2_000_000_000))
       performance.now = () => now() / 10`),
    )
    expect(ended).toEqual(fine(''))
    expect(arrivedAt(collector)).toHaveLength(3 * 505)
  })

  test('delivers what the callback of a delivered message records, and what that one records', async ({
    expect,
    onTestFinished,
  }) => {
    const collector = await startCollector(onTestFinished)
    const ended = await run(
      collector,
      `const analytics = new Analytics('k', { ${OPTIONS}, ${report} })
       const record = (i) =>
         analytics.track({ userId: 'u', event: 'e' + i }, (error) => !error && i < 4 && record(i + 1))
       record(0)`,
    )
    expect(ended).toEqual(fine(''))
    expect(arrivedAt(collector)).toEqual(['e0', 'e1', 'e2', 'e3', 'e4'])
  })

  test('delivers what a listener of beforeExit records, each time', async ({
    expect,
    onTestFinished,
  }) => {
    const collector = await startCollector(onTestFinished)
    const ended = await run(
      collector,
      `let left = 4
       process.on('beforeExit', () => {
         if (left-- > 0) setImmediate(() => analytics.track({ userId: 'u', event: 'e' + left }))
       })
       const analytics = new Analytics('k', { ${OPTIONS}, ${report} })
       analytics.track({ userId: 'u', event: 'first' })`,
    )
    expect(ended).toEqual(fine(''))
    expect(arrivedAt(collector)).toEqual(['first', 'e3', 'e2', 'e1', 'e0'])
  })

  test.for([
    [
      'when the first message is delivered',
      `await analytics.deliver('track', { userId: 'u', event: 'first' })`,
    ],
    ['as the first message', ''],
    ['while one is pending', `analytics.track({ userId: 'u', event: 'first' })`],
  ])(
    'delivers what a listener that comes after its own records %s',
    { tags: 'long' },
    async ([, before], { expect, onTestFinished }) => {
      const collector = await startCollector(onTestFinished)
      const ended = await run(
        collector,
        `const analytics = new Analytics('k', { ${OPTIONS}, ${report} })
       ${before}
       process.once('beforeExit', () => analytics.track({ userId: 'u', event: 'last' }))`,
      )
      expect(ended).toEqual(fine(''))
      expect(arrivedAt(collector)).toEqual(before ? ['first', 'last'] : ['last'])
    },
  )

  test(
    'ends, although a listener of beforeExit records a message each time',
    { tags: 'long' },
    async ({ expect, onTestFinished }) => {
      const collector = await startCollector(onTestFinished)
      const ended = await run(
        collector,
        `const analytics = new Analytics('k', { ${OPTIONS} })
       process.on('beforeExit', () => analytics.track({ userId: 'u', event: 'end' }))`,
      )
      expect(ended).toMatchObject({ code: 0, stdout: '' })
      expect(ended.stderr).toMatch(
        /a message is not waited for \(process_exit\).*process\.once\('beforeExit'/,
      )
      expect(arrivedAt(collector)).toEqual(Array(10).fill('end'))
    },
  )

  test(
    'lets a listener of beforeExit record and wait as often as it wants',
    { tags: 'long' },
    async ({ expect, onTestFinished }) => {
      const collector = await startCollector(onTestFinished)
      const ended = await run(
        collector,
        `const analytics = new Analytics('k', { ${OPTIONS}, ${report} })
       let left = 12
       process.on('beforeExit', async () => {
         if (left-- <= 0) return
         analytics.track({ userId: 'u', event: 'e' })
         await analytics.flush()
       })`,
      )
      expect(ended).toEqual(fine(''))
      expect(arrivedAt(collector)).toHaveLength(12)
    },
  )

  test(
    'whose hook records each loss ends after ten of them, and says that it leaves the last one',
    { tags: 'long' },
    async ({ expect }) => {
      const ended = await runInOutage(`const analytics = new Analytics('k', {
         onFailed: ({ error }) => {
           console.log(error.code)
           analytics.track({ userId: 'u', event: 'lost' })
         },
       })
       analytics.track({ userId: 'u', event: 'e' })`)
      expect(ended).toMatchObject({ code: 0, stdout: 'process_exit\n'.repeat(10) })
      expect(ended.stderr).toMatch(
        /a message is not waited for \(process_exit\), and nobody is told .* a callback or onFailed recorded a message each time/,
      )
    },
  )

  test('and whose endpoint refuses what it is sent delivers what a listener records later', async ({
    expect,
    onTestFinished,
  }) => {
    const collector = await startCollector(onTestFinished)
    collector.script(400)
    const ended = await run(
      collector,
      `const say = ${say}
       const analytics = new Analytics('k', { ${OPTIONS}, onFailed: () => {} })
       analytics.track({ userId: 'u', event: 'first' }, say('first'))
       process.once('beforeExit', async () => {
         await new Promise((resolve) => setTimeout(resolve, 300))
         analytics.track({ userId: 'u', event: 'last' }, say('last'))
       })`,
    )
    expect(ended).toEqual(fine('first rejected\nlast ok\n'))
    expect(arrivedAt(collector)).toEqual(['last'])
  })

  test.for([
    ['track', `analytics.track({ userId: 'u', event: 'again' })`],
    ['deliver', `void analytics.deliver('track', { userId: 'u', event: 'again' })`],
  ])(
    'whose hook records each refused message again with %s() ends',
    { tags: 'long' },
    async ([, record], { expect, onTestFinished }) => {
      const collector = await startCollector(onTestFinished)
      collector.otherwise(400)
      const ended = await run(
        collector,
        `const analytics = new Analytics('k', { ${OPTIONS}, onFailed: () => { ${record} } })
       analytics.track({ userId: 'u', event: 'first' })
       process.once('exit', () => console.log(analytics.stats().pending))`,
      )
      expect(ended).toMatchObject({ code: 0, stdout: '0\n' })
      expect(ended.stderr.match(/HooklineWarning/g)).toHaveLength(1)
      expect(ended.stderr).toMatch(
        /a message was lost \(process_exit\) that no callback .* recorded a message at each of 10 losses in a row/,
      )
      expect(collector.arrivals).toHaveLength(10)
    },
  )

  test(
    'gets the outcome of all that a listener records in its own time, however much of it is refused',
    { tags: 'long' },
    async ({ expect, onTestFinished }) => {
      const collector = await startCollector(onTestFinished)
      collector.script(200, ...Array<number>(30).fill(400))
      const ended = await run(
        collector,
        `const analytics = new Analytics('k', { ${OPTIONS}, flushAt: 1, onFailed: () => {} })
       const told = []
       const record = () => analytics.track({ userId: 'u', event: 'e' }, (error) => told.push(error?.code))
       record()
       process.once('beforeExit', async () => {
         for (let i = 0; i < 32; i++) {
           record()
           await new Promise((resolve) => setTimeout(resolve, 5))
         }
       })
       process.once('exit', () => console.log(told.length, JSON.stringify(analytics.stats())))`,
      )
      const stats =
        '{"accepted":33,"delivered":3,"rejected":30,"dropped":0,"pending":0,"pendingBytes":0}'
      expect(ended).toEqual(fine(`33 ${stats}\n`))
    },
  )

  test(
    'and gives up with a spool waits for what a callback of the last answer records',
    { tags: 'long' },
    async ({ expect, onTestFinished }) => {
      let requests = 0
      const server = createServer((request, response) => {
        request.resume().once('end', () => {
          // The first answer does not come to its end.
          if (requests++ > 0) response.end('{}')
          else response.writeHead(200, { 'Content-Length': '100' }).write('ok so far')
        })
      })
      const { url, close } = await listening(server.listen(0))
      onTestFinished(async () => {
        await close()
      })
      const directory = temporary(onTestFinished)
      const ended = await runScript(
        `const say = ${say}
       const analytics = new Analytics('k', { timeout: 20_000, spool: { directory: '${directory}' } })
       const record = (event, then) => {
         analytics.track({ userId: 'u', event }, (error) => {
           say(event)(error)
           then?.()
         })
       }
       const flush = (name) => analytics.flush().then((result) => console.log(name, result))
       record('first', () => {
         record('second', () => {
           record('third')
           flush('third')
         })
         flush('second')
       })`,
        { env: { ANALYTICS_ENDPOINT: url } },
      )
      expect(ended).toEqual(
        fine(`first ok
second ok
second { delivered: 1, failed: 0 }
third ok
third { delivered: 1, failed: 0 }
`),
      )
    },
  )

  test(
    'with a spool that can not be written loses nothing that a callback of a loss records in silence',
    { tags: 'long' },
    async ({ expect, onTestFinished }) => {
      const directory = temporary(onTestFinished)
      writeFileSync(`${directory}/file`, '')
      const ended = await runInOutage(`const say = ${say}
       const analytics = new Analytics('k', { spool: { directory: '${directory}/file/spool' }, ${report} })
       analytics.track({ userId: 'u', event: 'first' }, (error) => {
         say('first')(error)
         analytics.track({ userId: 'u', event: 'second' }, say('second'))
       })
       process.once('exit', () => console.log(analytics.stats().pending))`)
      expect(ended).toEqual(
        fine(`lost 0 spool_failed
first process_exit
lost 1 process_exit
second process_exit
lost 1 process_exit
0
`),
      )
    },
  )

  test(
    'leaves messages on its spool, goes on and flushes what it records then',
    { tags: 'long' },
    async ({ expect, onTestFinished }) => {
      const directory = temporary(onTestFinished)
      const ended = await runScript(`
      let isUp = false
      const fetch = async () => {
        await new Promise((resolve) => setImmediate(resolve))
        if (!isUp) throw new Error('away')
        return new Response()
      }
      const analytics = new Analytics('k', { fetch, spool: { directory: '${directory}' } })
      const record = (event) =>
        analytics.track({ userId: 'u', event }, (error) => console.log(event, error?.code))
      record('first')
      let ends = 0
      process.on('beforeExit', async () => {
        if (++ends !== 2) return
        isUp = true
        record('second')
        console.log(await analytics.flush())
        record('third')
      })`)
      expect(ended).toEqual(
        fine(`first spooled
second undefined
{ delivered: 1, failed: 0 }
third undefined
`),
      )
    },
  )

  test(
    'with waitUntil and a spool ends as any other does: the platform waits, not the client',
    { tags: 'long' },
    async ({ expect, onTestFinished }) => {
      const directory = temporary(onTestFinished)
      const ended = await runInOutage(`const started = performance.now()
       const analytics = new Analytics('k', { waitUntil: () => {}, spool: { directory: '${directory}' } })
       analytics.track({ userId: 'u', event: 'e' }, (error) => console.log(error.code))
       process.on('exit', () => console.log(performance.now() - started < 20_000))`)
      expect(ended).toEqual(fine('spooled\ntrue\n'))
    },
  )

  test('with an exit code of its own keeps it', async ({ expect, onTestFinished }) => {
    const collector = await startCollector(onTestFinished)
    const ended = await run(
      collector,
      `process.exitCode = 3
       new Analytics('k', { ${OPTIONS} }).track({ userId: 'u', event: 'e' })`,
    )
    expect(ended).toEqual({ ...fine(''), code: 3 })
    expect(arrivedAt(collector)).toEqual(['e'])
  })

  test('without a message, or after close(), ends', async ({ expect, onTestFinished }) => {
    const collector = await startCollector(onTestFinished)
    const ended = await run(
      collector,
      `new Analytics('k')
       const analytics = new Analytics('k', { ${OPTIONS} })
       analytics.track({ userId: 'u', event: 'e' })
       console.log(await analytics.close())`,
    )
    expect(ended).toEqual(fine('{ delivered: 1, failed: 0 }\n'))
  })

  test('after flush() is not held by timers or open connections', async ({
    expect,
    onTestFinished,
  }) => {
    const collector = await startCollector(onTestFinished)
    const ended = await run(
      collector,
      `const analytics = new Analytics('k', { ${OPTIONS} })
       analytics.track({ userId: 'u', event: 'a' })
       console.log(await analytics.flush())
       analytics.track({ userId: 'u', event: 'b' })`,
    )
    expect(ended).toEqual(fine('{ delivered: 1, failed: 0 }\n'))
    expect(arrivedAt(collector)).toEqual(['a', 'b'])
  })

  test('in await deliver() is held through a back-off', async ({ expect, onTestFinished }) => {
    const collector = await startCollector(onTestFinished)
    collector.script(503)
    const ended = await run(
      collector,
      `process.on('beforeExit', () => console.log('ended'))
       const analytics = new Analytics('k', { ${OPTIONS} })
       console.log(await analytics.deliver('track', { userId: 'u', event: 'e' }))`,
    )
    expect(ended).toEqual(fine('{ delivered: true }\nended\n'))
  })

  test('while the endpoint stumbles tries again', async ({ expect, onTestFinished }) => {
    const collector = await startCollector(onTestFinished)
    collector.script('reset', 'reset unread') // more of them would come near to the grace
    const ended = await run(
      collector,
      `const say = ${say}
       const analytics = new Analytics('k', { ${OPTIONS}, ${report} })
       analytics.track({ userId: 'u', event: 'e' }, say('e'))`,
    )
    expect(ended).toEqual(fine('e ok\n'))
    expect(arrivedAt(collector)).toEqual(['e'])
  })

  test('during a back-off does not wait for its end', async ({ expect, onTestFinished }) => {
    const collector = await startCollector(onTestFinished)
    collector.script(503)
    const ended = await run(
      collector,
      `const say = ${say}
       const alive = setInterval(() => {}, 1_000)
       await new Promise((resolve) => {
         const debug = (line) => line.startsWith('next attempt') && resolve()
         const analytics = new Analytics('k', { flushAt: 1, logger: { debug, warn() {} } })
         analytics.track({ userId: 'u', event: 'e' }, say('e'))
       }).finally(() => clearInterval(alive))`,
      // Back-offs would last for ever here.
      first(`const isBackOff = (ms) => ms >= 250 && ms <= 500
       timers.setTimeout = (act, ms) => setTimeout(act, isBackOff(ms) ? 2_000_000_000 : ms)`),
    )
    expect(ended).toEqual(fine('e ok\n'))
    expect(collector.arrivals).toHaveLength(2)
  })

  test(
    'goes on while messages are delivered, however long that takes',
    { tags: 'long' },
    async ({ expect, onTestFinished }) => {
      const collector = await startCollector(onTestFinished)
      collector.otherwise(async () => {
        await new Promise((resolve) => setTimeout(resolve, 1_000))
        return 200
      })
      const ended = await run(
        collector,
        `const analytics = new Analytics('k', { ${OPTIONS}, ${report}, maxBatchBytes: 40_000 })
       const properties = { fill: 'x'.repeat(15_000) }
       for (let i = 0; i < 16; i++) analytics.track({ userId: 'u', event: 'e' + i, properties })`,
      )
      expect(ended).toEqual(fine(''))
      expect(collector.arrivals).toHaveLength(8)
    },
  )

  test(
    'waits for a Retry-After that is longer than its grace',
    { tags: 'long' },
    async ({ expect, onTestFinished }) => {
      const collector = await startCollector(onTestFinished)
      collector.script({ status: 429, headers: { 'Retry-After': '8' } })
      const ended = await run(
        collector,
        `const say = ${say}
       const analytics = new Analytics('k', { ${OPTIONS}, ${report} })
       analytics.track({ userId: 'u', event: 'e' }, say('e'))`,
      )
      expect(ended).toEqual(fine('e ok\n'))
    },
  )

  test(
    'does not wait for a Retry-After that is longer than 30 s',
    { tags: 'long' },
    async ({ expect, onTestFinished }) => {
      const collector = await startCollector(onTestFinished)
      collector.otherwise({ status: 503, headers: { 'Retry-After': '200' } })
      const ended = await run(
        collector,
        `const onFailed = ({ error }) => console.log(error.message)
       const analytics = new Analytics('k', { ${OPTIONS}, onFailed })
       analytics.track({ userId: 'u', event: 'e' })`,
        // A second lasts a tenth of it here.
        first(`const now = performance.now.bind(performance)
       timers.setTimeout = (act, ms) => setTimeout(act, ms / 10)
       performance.now = () => now() * 10`),
      )
      expect(ended).toMatchObject({ code: 0, stderr: '' })
      expect(ended.stdout).toMatch(
        / took no message for [3-9]\d s \(it asked for a wait with Retry-After\): await close\(\)/,
      )
      expect(collector.arrivals).toHaveLength(1)
    },
  )

  test('while the endpoint is down ends by itself, with code 0, and reports the loss', async ({
    expect,
  }) => {
    const ended = await runInOutage(`const say = ${say}
       const analytics = new Analytics('k', { ${OPTIONS}, ${report} })
       for (const name of ['a', 'b']) analytics.track({ userId: 'u', event: name }, say(name))`)
    expect(ended).toEqual(fine('a process_exit\nb process_exit\nlost 2 process_exit\n'))
  })

  test(
    'and is closed in the callback of its first loss tells of all of them, and then of those that came since',
    { tags: 'long' },
    async ({ expect }) => {
      const ended = await runInOutage(`const analytics = new Analytics('k', { onFailed: () => {} })
       const told = {}
       let closing
       const close = (error) => {
         told[error.code] = (told[error.code] ?? 0) + 1
         if (closing) return
         analytics.track({ userId: 'u', event: 'late' }, ({ code }) => console.log('late', code, told))
         closing = analytics.close({ timeout: 0 }).then(console.log)
       }
       for (let i = 0; i < 20_000; i++) analytics.track({ userId: 'u', event: 'e' + i }, close)`)
      const expected =
        'late close_timeout { process_exit: 20000 }\n{ delivered: 0, failed: 20001 }\n'
      expect(ended).toEqual(fine(expected))
    },
  )

  test(
    'while the endpoint is down and without onFailed warns of the loss once',
    { tags: 'long' },
    async ({ expect }) => {
      const ended = await runInOutage(`const analytics = new Analytics('k', { flushAt: 1 })
       for (let i = 0; i < 50; i++) analytics.track({ userId: 'u', event: 'e' })`)
      expect(ended).toMatchObject({ code: 0, stdout: '' })
      expect(ended.stderr.match(/HooklineWarning/g)).toHaveLength(1)
      expect(ended.stderr).toMatch(
        /a message was lost \(process_exit\)\. The script ended, and \S+ took no message for \d+ s: await/,
      )
    },
  )

  test(
    'while the endpoint hangs ends by itself, however long its timeout',
    { tags: 'long' },
    async ({ expect, onTestFinished }) => {
      const collector = await startCollector(onTestFinished)
      collector.otherwise('silence')
      const ended = await run(
        collector,
        `const analytics = new Analytics('k', { timeout: 2_000_000_000, ${report} })
       analytics.track({ userId: 'u', event: 'e' })`,
      )
      expect(ended).toEqual(fine('lost 1 process_exit\n'))
      expect(collector.arrivals).toHaveLength(1)
    },
  )

  test(
    'while an injected fetch hangs, with nothing that holds the process, reports the loss',
    { tags: 'long' },
    async ({ expect }) => {
      const ended = await runScript(
        `const fetch = () => new Promise(() => {})
       const analytics = new Analytics('k', { fetch, timeout: 2_000_000_000, ${report} })
       analytics.track({ userId: 'u', event: 'e' })`,
      )
      expect(ended).toEqual(fine('lost 1 process_exit\n'))
    },
  )

  test.for([
    'console.log(await analytics.flush())',
    'console.log(await analytics.close({ timeout: Infinity }))',
    `process.once('beforeExit', async () => console.log(await analytics.flush()))`,
    `process.once('beforeExit', async () => console.log(await analytics.close({ timeout: 60_000 })))`,
  ])(
    'in %s lives through an outage that is longer than the grace at exit',
    { tags: 'long' },
    async (call, { expect, onTestFinished }) => {
      const collector = await startCollector(onTestFinished)
      await collector.shut()
      const ended = run(
        collector,
        `const analytics = new Analytics('k', { ${report} })
         analytics.track({ userId: 'u', event: 'e' })
         ${call}`,
      )
      await new Promise((resolve) => setTimeout(resolve, 7_000))
      await collector.open()
      expect(await ended).toEqual(fine('{ delivered: 1, failed: 0 }\n'))
    },
  )

  test(
    'in await flush() with a timeout ends when that is over, and the process after its grace',
    { tags: 'long' },
    async ({ expect }) => {
      const ended = await runInOutage(`const analytics = new Analytics('k', { ${report} })
       analytics.track({ userId: 'u', event: 'e' })
       console.log(await analytics.flush({ timeout: 10 }))`)
      expect(ended).toEqual(fine('{ delivered: 0, failed: 0 }\nlost 1 process_exit\n'))
    },
  )

  test('in await close() with a timeout ends when that is over', async ({ expect }) => {
    const ended = await runInOutage(`const analytics = new Analytics('k', { ${report} })
       analytics.track({ userId: 'u', event: 'e' })
       console.log(await analytics.close({ timeout: 10 }))`)
    expect(ended).toEqual(fine('lost 1 close_timeout\n{ delivered: 0, failed: 1 }\n'))
  })
})

describe.concurrent('a process', { timeout: 120_000 }, () => {
  test(
    'gets one listener on beforeExit, and none on signals, exceptions or exit',
    { tags: 'long' },
    async ({ expect, onTestFinished }) => {
      const collector = await startCollector(onTestFinished)
      const ended = await run(
        collector,
        `const before = process.eventNames().map(String)
       for (let i = 0; i < 12; i++) {
         const analytics = new Analytics('k', { ${OPTIONS} })
         analytics.track({ userId: 'u', event: 'e' })
       }
       const added = process.eventNames().map(String).filter((name) => !before.includes(name))
       console.log(added, process.listenerCount('beforeExit'))`,
      )
      // Node warns of more than ten listeners: no MaxListenersExceededWarning on stderr.
      expect(ended).toEqual(fine("[ 'beforeExit' ] 1\n"))
      expect(arrivedAt(collector)).toHaveLength(12)
    },
  )

  test(
    'does not keep the AsyncLocalStorage context of a call alive',
    { tags: 'long' },
    async ({ expect, onTestFinished }) => {
      const collector = await startCollector(onTestFinished)
      collector.script('silence', 503, 503)
      const ended = await run(
        collector,
        `import { AsyncLocalStorage } from 'node:async_hooks'
       const context = new AsyncLocalStorage()
       const track = (analytics) => {
         const request = { body: new Array(1_000) }
         context.run(request, () => analytics.track({ userId: 'u', event: 'e' }))
         return new WeakRef(request)
       }
       const turn = () => new Promise((resolve) => setImmediate(resolve))
       const failed = (fetch) => {
         let done
         const once = new Promise((resolve) => (done = resolve))
         return { once, fetch: async (...given) => { const response = await fetch(...given); done(); return response } }
       }

       const refs = {
         interval: track(new Analytics('k', { ${OPTIONS} })),
         inFlight: track(new Analytics('k', { flushAt: 1 })),
       }
       const backOff = failed(fetch)
       for (let i = 0; i < 100; i++) await turn()
       refs.backOff = track(new Analytics('k', { flushAt: 1, fetch: backOff.fetch }))
       await backOff.once
       for (let i = 0; i < 20; i++) {
         await turn()
         gc()
       }
       for (const [name, ref] of Object.entries(refs)) console.log(name, ref.deref() ? 'kept' : 'free')
       process.exit()`,
        ['--expose-gc'],
      )
      expect(ended).toEqual(fine('interval free\ninFlight free\nbackOff free\n'))
    },
  )
})

const seeds = process.env['SEED']
  ? [Number(process.env['SEED'])]
  : Array.from({ length: Number(process.env['RUNS'] ?? 8) }, () => Math.floor(Math.random() * 1e9))

describe.concurrent('a script that records at random moments until it ends', () => {
  test.for(seeds)(
    'gets the outcome of each message from an endpoint that is up: SEED=%i',
    { tags: 'long' },
    async (seed, { expect, onTestFinished }) => {
      const [plan] = fc.sample(randomScript, { seed, numRuns: 1 })
      if (!plan) throw new Error('no plan')
      const { spool, ...rest } = plan
      const collector = await startCollector(onTestFinished)
      const isBad = ({ event }: WireMessage) => event?.startsWith('bad') === true
      collector.otherwise(({ messages }) => {
        if (messages.length === 1 && messages.every(isBad)) return 400
        const rejected = messages.flatMap((one, index) => (isBad(one) ? [{ index }] : []))
        return { body: JSON.stringify({ rejected }) }
      })
      const directory = temporary(onTestFinished) + (spool === 'broken' ? '/file/spool' : '')
      if (spool === 'broken') writeFileSync(dirname(directory), '')
      const { code, stdout, stderr } = await run(
        collector,
        `const plan = ${JSON.stringify({ ...rest, ...(spool && { spool: { directory } }) })}
         const { flushAt, spool, records, first, atExit } = plan
         const after = {
           never: () => {},
           'at once': (act) => act(),
           'in a microtask': (act) => queueMicrotask(act),
           'in an immediate': (act) => setImmediate(act),
           'in a timer': (act) => setTimeout(act, 15),
         }
         const analytics = new Analytics('k', { ${OPTIONS}, flushAt, spool, onFailed: () => {} })
         let recorded = 0
         const record = () => {
           const next = records[recorded]
           if (!next) return
           const event = next.event + recorded++
           analytics.track({ userId: 'u', event }, (error) => {
             console.log(event, error?.code ?? 'ok')
             after[next.then](record)
           })
         }
         for (let i = 0; i < first; i++) record()
         process.once('beforeExit', async () => {
           if (atExit > 0) await new Promise((resolve) => setTimeout(resolve, atExit))
           if (atExit >= 0) record()
         })
         process.once('exit', () => console.log('recorded', recorded))`,
      )
      const lines = stdout.trim().split('\n')
      const recorded = Number(lines.pop()?.split(' ')[1])
      const expected = rest.records
        .slice(0, recorded)
        .map(({ event }, i) => `${event}${i} ${event === 'bad' ? 'rejected' : 'ok'}`)
      expect([code, stderr, lines.filter(Boolean).sort()]).toEqual([0, '', expected.sort()])
    },
  )
})

/** Fewer records than the ends of a script that a hook may cause. */
const randomScript = fc.record({
  flushAt: fc.constantFrom(1, 20),
  spool: fc.constantFrom(undefined, undefined, 'whole' as const, 'broken' as const),
  first: fc.integer({ min: 0, max: 3 }),
  /** How long a listener of beforeExit waits before it records, in ms; it does not for -1. */
  atExit: fc.constantFrom(-1, 0, 20),
  records: fc.array(
    fc.record({
      event: fc.constantFrom('good', 'good', 'bad'),
      then: fc.constantFrom('never', 'at once', 'in a microtask', 'in an immediate', 'in a timer'),
    }),
    { minLength: 9, maxLength: 9 },
  ),
})

test('requests are made outside the context of the call that caused them', async () => {
  const { AsyncLocalStorage } = await import('node:async_hooks')
  const { Analytics } = await import('../src/index.js')
  const context = new AsyncLocalStorage<string>()
  const seen: unknown[] = []
  const fetch = () => {
    seen.push(context.getStore())
    return Promise.resolve(new Response(null, { status: seen.length < 2 ? 503 : 200 }))
  }
  const analytics = new Analytics('k', { fetch, flushAt: 1 })
  await context.run('request', async () => {
    analytics.track({ userId: 'u', event: 'e' })
    await analytics.flush()
  })
  await analytics.close()
  expect(seen).toEqual([undefined, undefined])
})

test('a client that is made in a request sends, and tells, outside of it', async () => {
  const { AsyncLocalStorage } = await import('node:async_hooks')
  const { Analytics } = await import('../src/index.js')
  const context = new AsyncLocalStorage<string>()
  const seen: unknown[] = []
  const note = () => {
    seen.push(context.getStore())
  }
  const fetch = () => {
    note()
    return Promise.resolve(new Response())
  }
  const analytics = context.run(
    'first request',
    () => new Analytics('k', { fetch, flushAt: 1, onFailed: note, onInvalid: 'report' }),
  )
  context.run('second request', () => {
    analytics.track({ userId: 'u', event: 'e' }, note)
    analytics.track({ userId: 'u', event: '' }, note)
  })
  await analytics.close()
  expect(seen).toEqual([undefined, undefined, undefined, undefined])
})
