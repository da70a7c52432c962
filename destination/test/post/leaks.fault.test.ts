import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { expect, inject, test } from 'vitest'
import { answering, listenTcp, OK, onRequest } from './sockets.js'

/** Runs the script until it ends by itself. If a connection or timer leaks, it never does. */
async function run(...args: string[]) {
  const script = `${import.meta.dirname}/many-posts.js`
  const child = spawn(process.execPath, [script, inject('compiledDir'), ...args], {
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let out = ''
  let errors = ''
  child.stdout.on('data', (chunk) => (out += String(chunk)))
  child.stderr.on('data', (chunk) => (errors += String(chunk)))
  const [exitCode] = (await once(child, 'close')) as [number]
  return { exitCode, errors, result: JSON.parse(out || 'null') as unknown }
}

test.each(['close', 'leave'])(
  'a process that has sent thousands of requests ends by itself, if it is to %s its posters',
  async (close) => {
    const healthy = await answering(OK)
    const resetting = await listenTcp(onRequest((socket) => void socket.resetAndDestroy()))
    const breaking = await listenTcp(
      onRequest((socket) => {
        socket.write('HTTP/1.1 500 No\r\nContent-Length: 9\r\n\r\nhalf', () => {
          socket.resetAndDestroy()
        })
      }),
    )
    const servers = [healthy, resetting, breaking]
    const urls = servers.map(({ port }) => `http://127.0.0.1:${port}/`)
    const { exitCode, errors, result } = await run(close, ...urls, 'http://127.0.0.1:1/')

    expect({ exitCode, errors }).toEqual({ exitCode: 0, errors: '' })
    const codes = {
      delivered: 1_000,
      connection_reset: 1_000,
      server_error: 1_000,
      connection_refused: 1_000,
    }
    expect(result).toMatchObject({ codes, ...(close === 'close' ? { left: [] } : {}) })
    expect(servers.map(({ open }) => open.size)).toEqual([0, 0, 0])
  },
)
