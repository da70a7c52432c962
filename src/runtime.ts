// What Node offers and other runtimes may not. Asked for at run time, so that the same build loads in
// Workers, Bun and Deno and in bundles for them.

/** The `process` of Node, or what stands for it in another runtime. Read each time: a test may replace it. */
export function currentProcess(): Partial<NodeJS.Process> | undefined {
  return (globalThis as { process?: Partial<NodeJS.Process> }).process
}

export const getBuiltin: typeof process.getBuiltinModule | undefined =
  currentProcess()?.getBuiltinModule

export const http = getBuiltin?.('node:http')
export const https = getBuiltin?.('node:https')
/** Bun's fetch takes no agent, and uses the proxies of the environment itself. */
export const isBun = currentProcess()?.versions?.['bun'] !== undefined
export const net = getBuiltin?.('node:net')
export const zlib = getBuiltin?.('node:zlib')
export const fs = getBuiltin?.('node:fs')
/** Node 20 can run without the global. */
export const crypto =
  (globalThis as { crypto?: typeof globalThis.crypto }).crypto ??
  (getBuiltin?.('node:crypto').webcrypto as typeof globalThis.crypto)
const asyncHooks = getBuiltin?.('node:async_hooks')
/** The environment of Jest for browsers has no such globals. */
const { TextDecoder, TextEncoder } = getBuiltin?.('node:util') ?? globalThis
export const encoder = new TextEncoder()
export const createDecoder = () => new TextDecoder()
export const decoder = createDecoder()

// Taken once: fake timers that a test installs later would stop the client, and lose what it has scheduled on them. Jest can fake
// the globals before any module is loaded, but not these of Node.
const timers = getBuiltin?.('node:timers') ?? globalThis
export const { clearTimeout, setInterval, clearInterval } = timers
const { setTimeout, setImmediate } = timers
const { performance } = getBuiltin?.('node:perf_hooks') ?? globalThis
export const nowMs = performance.now.bind(performance)

/** Edge runtimes offer it as a global. */
export const AsyncLocalStorage =
  asyncHooks?.AsyncLocalStorage ??
  (globalThis as { AsyncLocalStorage?: typeof import('node:async_hooks').AsyncLocalStorage })
    .AsyncLocalStorage

/** Made when the module is loaded, and not in a request, as a client may be. */
const root = asyncHooks && new asyncHooks.AsyncResource('hookline')
// Jest would report it as an open handle. It can still be used.
;(root as { emitDestroy?: () => void } | undefined)?.emitDestroy?.()

/**
 * Gives a function that runs `act` outside the request (the AsyncLocalStorage context) that happens to be
 * current. Timers and sockets live long: they must not keep a request's context alive.
 */
export function detached<Arguments extends unknown[], Result>(
  act: (...args: Arguments) => Result,
): (...args: Arguments) => Result {
  return root ? (...args) => root.runInAsyncScope(act, undefined, ...args) : act
}

export type Timer = ReturnType<typeof setTimeout>

/** Starts a timer that does not hold the process. Those of other runtimes are numbers and hold nothing. */
export function startTimer(act: () => void, delayMs: number): Timer {
  const timer = setTimeout(act, delayMs)
  ;(timer as { unref?: () => void }).unref?.()
  return timer
}

/** Runs `act` in a later turn of the event loop. */
export const later: (act: () => void) => void =
  typeof setImmediate === 'function'
    ? (act) => void setImmediate(act)
    : (act) => void setTimeout(act, 0)

/** A timer that fires so late was held up: the process was stopped, or its event loop was blocked. */
const LATE_MS = 100

/** How long a timer that fired late waits for what arrived meanwhile. */
const LATE_GRACE_MS = 250

/**
 * Runs `act` after `delayMs`, with Infinity never. When the timer fires late, since the process was frozen, it first gives the
 * event loop time to read the sockets: the answer that is waited for may be there already.
 *
 * @returns cancels it
 */
export function startDeadline(delayMs: number, act: () => void, isHolding = false): () => void {
  let timer: Timer | undefined
  let hasGrace = true
  const start = (ms: number) => {
    const dueMs = nowMs() + ms
    timer = (isHolding ? setTimeout : startTimer)(() => {
      const isLate = nowMs() - dueMs > LATE_MS
      if (!isLate || !hasGrace) act()
      else {
        hasGrace = false // in a busy process each timer is late
        start(Math.min(delayMs, LATE_GRACE_MS))
      }
    }, ms)
  }
  if (delayMs < Infinity) start(delayMs)
  return () => {
    clearTimeout(timer)
  }
}
