import { v7 } from 'uuid'
import { crypto } from './runtime.js'

/** Asking the system for random bytes takes 4 µs, however few they are: a block serves some 600 ids. */
const pool = new Uint8Array(4_096)
let used = pool.length

/** The counter has the 14 bits after the variant. Source: RFC 9562, section 6.2, method 1. */
const MAX_COUNTER = 0x3fff

const hex = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, '0'))

let lastMs = -Infinity
let counter = MAX_COUNTER
/** What the ids of one millisecond start with: the time, the version, and 12 bits that are random. */
let prefix = ''

/**
 * Makes a UUID version 7: it starts with the time, and each is greater than the one before it, also when
 * the clock stands still or goes back. The package makes the first id of a millisecond. For the others it
 * would cost more than the rest of a call, so they only count up and take new random bytes.
 */
export function createId(): string {
  const ms = Date.now()
  if (ms > lastMs) start(ms)
  else if (counter === MAX_COUNTER) start(lastMs + 1)
  else counter++
  const at = take(6)
  return (
    prefix +
    byte(0x80 | (counter >> 8)) +
    byte(counter & 0xff) +
    '-' +
    byte(pool[at]) +
    byte(pool[at + 1]) +
    byte(pool[at + 2]) +
    byte(pool[at + 3]) +
    byte(pool[at + 4]) +
    byte(pool[at + 5])
  )
}

/** Starts the ids of a millisecond. The counter starts in its lower half, to have room to count. */
function start(msecs: number): void {
  const at = take(18)
  const random = pool.subarray(at, at + 16)
  prefix = v7({ msecs, random }).slice(0, 19)
  counter = (((pool[at + 16] ?? 0) & 0x1f) << 8) | (pool[at + 17] ?? 0)
  lastMs = msecs
}

function take(bytes: number): number {
  if (used + bytes > pool.length) {
    crypto.getRandomValues(pool)
    used = 0
  }
  used += bytes
  return used - bytes
}

function byte(value = 0): string {
  return hex[value] ?? ''
}
