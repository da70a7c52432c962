// Copies of what is built, each with one property broken. The proof of that property must turn red,
// and for that reason: `says` is what it finds.
import { cpSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { seedsOf } from './random/plan.js'

const root = fileURLToPath(new URL('..', import.meta.url))
/** Inside the repository, so that packages are found. */
const build = join(root, 'proof/build')

/** The search ends at the first round that sees the mutant, so many rounds cost little. */
const SEEDS_A_MUTANT = 48

export const MUTANTS = [
  {
    name: 'a batch that failed is not tried again',
    says: /lost/,
    proof: 1,
    package: 'sdk',
    scripts: ['500'],
    file: 'analytics.js',
    find: 'this.#tried = [...this.#tried, batch].sort(byAge);',
    put: '',
  },
  {
    name: 'a 413 is a refusal, not split',
    says: /lost/,
    proof: 1,
    package: 'sdk',
    scripts: ['413 over 4 KB'],
    file: 'analytics.js',
    find: '(status === 413 || status === 400)',
    put: '(status === 400)',
  },
  {
    name: 'a call returns, and its record is not on disk',
    says: /calls lost/,
    proof: 2,
    package: 'sdk',
    file: 'analytics.js',
    find: 'segment.append(json);\n\t\tif (this.#around.fsync',
    put: 'if (this.#around.fsync',
  },
  {
    name: 'what has its outcome is not noted',
    says: /came again/,
    proof: 2,
    package: 'sdk',
    file: 'analytics.js',
    find: 'segment.saveSettled();',
    put: ';',
  },
  {
    name: 'the destination answers before its commit',
    says: / lost/,
    proof: 3,
    package: 'destination',
    file: 'dist/enqueue/enqueue.js',
    find: 'ids = await store.put(placed);',
    put: 'ids = []; setTimeout(() => void store.put(placed).catch(() => undefined), 500);',
  },
  {
    name: 'what an endpoint took is not noted',
    says: /came again/,
    proof: 3,
    package: 'destination',
    file: 'dist/deliver/settler.js',
    find: 'await this.#store.settle(settlements)',
    put: '0',
  },
  {
    name: 'a signature is of other bytes',
    says: /wrong signatures/,
    proof: 3,
    package: 'destination',
    file: 'dist/post/headers.js',
    find: '.update(body)',
    put: ".update(body + ' ')",
  },
  {
    name: 'commits are not synced',
    says: /before their fsync/,
    proof: 4,
    package: 'destination',
    file: 'dist/store/sqlite/engine.js',
    find: "isDurable ? 'FULL' : 'NORMAL'",
    put: "'NORMAL'",
  },
  {
    name: 'the destination answers before its commit',
    says: /before their fsync/,
    proof: 4,
    package: 'destination',
    file: 'dist/enqueue/enqueue.js',
    find: 'ids = await store.put(placed);',
    put: 'ids = []; void store.put(placed).catch(() => undefined);',
  },
  ...atRandom('a poison message', [
    {
      name: 'a message that always fails is not isolated',
      says: /not over|process_exit/,
      find: 'if (strikes < ISOLATE_STRIKES)',
      put: 'if (true)',
    },
  ]),
  ...atRandom('a backlog that takes longer than the exit allows', [
    {
      name: 'a script that ends gives up in spite of progress',
      says: /process_exit without|dropped without/,
      find: 'const progressMs = Math.max(endedMs, this.#client.books.lastOutcomeMs);',
      put: 'const progressMs = endedMs;',
    },
    {
      name: 'two bodies are under way at a time',
      says: /requests in flight|brings message/,
      find: 'this.#inLine >= allowed',
      put: 'this.#inLine > allowed',
    },
  ]),
  ...atRandom('somebody waits through a long outage', [
    {
      name: 'a flush does not keep the process',
      says: /process ended with 13|process_exit without|no answer when/,
      find: 'if (isHolding)',
      put: 'if (false)',
    },
  ]),
  ...atRandom('a script that ends', [
    {
      name: 'a script that has ended waits for too long',
      says: /process ended \d+ ms after/,
      find: 'const GRACE_MS = 5_000;',
      put: 'const GRACE_MS = 9_000;',
    },
  ]),
  ...atRandom('an outage of everything', [
    {
      name: 'a flush ends before its messages',
      says: /waited for|answered before/,
      find: 'stretch.waiters.add(waiter);',
      put: 'stretch.waiters.add(waiter); if (stretch.left < 50) resolve({ delivered: 0, failed: 0 });',
    },
    {
      name: 'Retry-After is not read',
      says: /asked for/,
      find: 'delayMs > 0 ? Math.min(delayMs, MAX_RETRY_AFTER_MS) : 0',
      put: '0',
    },
    {
      name: 'the wait does not grow',
      says: /within 5 s of an outage/,
      find: 'FIRST_BACKOFF_MS * 2 ** (failures - 1)',
      put: 'FIRST_BACKOFF_MS',
    },
  ]),
  ...atRandom('the same refusal for everything', [
    {
      name: 'nothing is said of a loss',
      says: /not a word of it/,
      find: 'this.#told.add(kind);',
      put: 'return;',
    },
    {
      name: 'each loss is a warning',
      says: /warnings for/,
      find: 'if (this.#told.has(kind))',
      put: 'if (false)',
    },
    {
      name: 'a 400 for everything is split to the end',
      says: /requests to learn/,
      find: 'this.#sameRefusals.count >= most',
      put: 'false',
    },
  ]),
  ...atRandom('refusals by content', [
    {
      name: 'a 400 takes its neighbours down',
      says: /rejected 400 without a reason/,
      find: '(status === 413 || status === 400) && messages > 1',
      put: 'status === 413 && messages > 1',
    },
  ]),
  ...atRandom('hostile answers', [
    {
      name: 'what an answer calls a code is taken as it is',
      says: /internal_error without a reason|process ended with 1/,
      find: "typeof value === 'string' ? value.slice(0, MAX_WORDS_LENGTH) : describe(value)",
      put: 'String(value)',
    },
  ]),
  ...atRandom('freeze and thaw', [
    {
      name: 'a late timer does not look at the socket',
      says: /frozen meanwhile/,
      file: 'errors.js',
      find: 'if (!isLate || !hasGrace)',
      put: 'if (true)',
    },
  ]),
  ...atRandom('answers that can’t be read', [
    {
      name: 'a body that is cut is waited for',
      says: /nothing for/,
      find: 'if (!response.complete)',
      put: 'if (false)',
    },
  ]),
  ...inSimulation('endpoints that differ', [
    {
      name: 'the endpoint with the least room decides',
      says: /progress: /,
      file: 'dist/deliver/destination-queue.js',
      find: 'most = Math.max(most, of(endpoint));',
      put: 'most = most === -Infinity ? of(endpoint) : Math.min(most, of(endpoint));',
    },
    {
      name: 'the longest Retry-After of all endpoints decides',
      says: /due times: /,
      file: 'dist/deliver/decide.js',
      find: 'Math.min(...waits)',
      put: 'Math.max(...waits)',
    },
  ]),
  ...inSimulation('outages', [
    {
      name: 'a breaker never opens',
      says: /probes: /,
      file: 'dist/deliver/breaker.js',
      find: 'const FAILURES_TO_OPEN = 5;',
      put: 'const FAILURES_TO_OPEN = 5_000;',
    },
    {
      name: 'a rateLimit is not kept',
      says: /rate: /,
      file: 'dist/deliver/pace.js',
      find: 'return Math.floor(this.#tokens);',
      put: 'return Infinity;',
    },
  ]),
  ...inSimulation('messages that fail for ever', [
    {
      name: 'the oldest message is the only probe',
      says: /progress: |end: /,
      file: 'dist/deliver/destination-queue.js',
      find: `    { lane: 'backlog', isUntried: true },
    { lane: 'fresh', isUntried: true },
    { lane: 'backlog', isUntried: true },
`,
      put: '',
    },
  ]),
  ...inSimulation('a rotation of secrets', [
    {
      name: 'a message that one secret is refused for is dead',
      says: /refusals: |window: /,
      file: 'dist/deliver/send.js',
      find: 'next.length > 0 && refusesSignature(outcome)',
      put: 'false',
    },
  ]),
  ...inSimulation('reloads', [
    {
      name: 'a destination that is switched off keeps sending',
      says: /settings: /,
      file: 'dist/deliver/dispatcher.js',
      find: 'const former = this.#queues;',
      put: `const names = new Set(queues.map(({ destination }) => destination.name));
        const kept = Array.from(this.#queues.values()).filter(({ destination }) => !names.has(destination.name));
        queues = [...queues, ...kept];
        unused = unused.filter((endpoint) => !kept.some(({ endpoints }) => endpoints.includes(endpoint)));
        const former = this.#queues;`,
    },
    {
      name: 'requests that wait for their turn are forgotten by a reload',
      says: /leases: /,
      file: 'dist/deliver/dispatcher.js',
      find: `for (const endpoint of unused)
            endpoint.retire();`,
      put: ';',
    },
    {
      name: 'what a reload finds leased is forgotten',
      says: /leases: /,
      file: 'dist/deliver/dispatcher.js',
      find: 'this.#giveBack(delivery, retryLane(delivery));',
      put: ';',
    },
  ]),
  ...inSimulation('more messages than an endpoint takes', [
    {
      name: 'a change of the concurrency forgets the requests under way',
      says: /concurrency: /,
      file: 'dist/deliver/destination-queues.js',
      find: 'known?.breaker ?? new Breaker(',
      put: 'new Breaker(',
    },
    {
      name: 'a change of the rateLimit is a new burst',
      says: /rate: /,
      file: 'dist/deliver/destination-queues.js',
      find: 'known?.pace ?? new Pace(',
      put: 'new Pace(',
    },
    {
      name: 'messages in memory are forgotten by a reload',
      says: /leases: /,
      file: 'dist/deliver/dispatcher.js',
      find: `this.#giveUp(queue, true);
        }
        this.#pollAt`,
      put: `}
        this.#pollAt`,
    },
    {
      name: 'messages wait in memory for ever',
      says: /leases: /,
      file: 'dist/deliver/destination-queue.js',
      find: 'this.#ahead.giveUp(this.#now(), isAll)',
      put: '[]',
    },
  ]),
  ...inSimulation('refusals', [
    {
      name: 'a message that was not sent is due at once',
      says: /rest: |crash: /,
      file: 'dist/deliver/decide.js',
      find: 'delayMs: Math.max(MIN_UNSENT_DELAY_MS, retryAfterMs)',
      put: 'delayMs: 0',
    },
  ]),
  ...inSimulation('bulk work', [
    {
      name: 'bulk work has no lane of its own',
      says: /bulk: /,
      file: 'dist/deliver/dispatcher.js',
      find: "return { state: 'bulk', queue };",
      put: "return { state: 'backlog', queue };",
    },
  ]),
  ...inSimulation('workers come and go', [
    {
      name: 'each worker takes the whole concurrency',
      says: /concurrency: /,
      file: 'dist/deliver/breaker.js',
      find: 'Math.floor(this.#cap / this.#workers)',
      put: 'this.#cap',
    },
    {
      name: 'each worker takes the whole rateLimit',
      says: /rate: /,
      file: 'dist/deliver/pace.js',
      find: 'this.#share = this.#limit / workers;',
      put: 'this.#share = this.#limit;',
    },
  ]),
  ...inSimulation('a store that fails', [
    {
      name: 'settlements that the store could not take are dropped',
      says: /leases: /,
      file: 'dist/deliver/settler.js',
      find: 'this.#waiting = settlements.concat(this.#waiting);',
      put: ';',
    },
  ]),
  ...inSimulation('one process on SQLite', [
    {
      name: 'an attempt that was lost counts',
      says: /attempts: /,
      file: 'dist/store/sqlite/release.js',
      find: ', attempts_before = attempts_before + 1',
      put: '',
    },
    {
      name: 'a lease that ran out counts as an attempt',
      says: /attempts: /,
      file: 'dist/store/sqlite/claim.js',
      find: 'row.attemptsBefore + (from === LEASED ? 1 : 0)',
      put: 'row.attemptsBefore',
    },
    {
      name: 'a lease never runs out',
      says: /progress: |end: /,
      file: 'dist/store/sqlite/claim.js',
      find: "const mayLapse = lane === 'backlog' && !isUntried;",
      put: 'const mayLapse = false;',
    },
  ]),
  ...inSimulation('several workers on the engine of SQLite', [
    {
      name: 'the settlement of a former attempt counts',
      says: /fencing: /,
      file: 'dist/store/sqlite/settle.js',
      find: 'WHERE id = ? AND attempt = ? AND state',
      put: 'WHERE id = ? AND ? > 0 AND state',
    },
  ]),
  ...inSimulation('deletions of users', [
    {
      name: 'what waits at an endpoint is sent although it was deleted',
      says: /deletions: /,
      file: 'dist/deliver/dispatcher.js',
      find: 'endpoint.withdraw(ids);',
      put: ';',
    },
    {
      name: 'what comes from the store after it was deleted is sent',
      says: /deletions: /,
      file: 'dist/deliver/dispatcher.js',
      find: 'if (this.#recalled.has(id))',
      put: 'if (false)',
    },
    {
      name: 'the other secret is tried although the message was deleted',
      says: /deletions: /,
      file: 'dist/deliver/send.js',
      find: 'if (!isRecalled())',
      put: 'if (true)',
    },
    {
      name: 'a worker never asks what was deleted without a word to it',
      says: /deletions: /,
      file: 'dist/deliver/dispatcher.js',
      find: 'await shared.gone(ids)',
      put: '[]',
    },
  ]),
  ...inSimulation('four hours and more', [
    {
      name: 'a message is given up after an hour',
      says: /window: /,
      file: 'dist/deliver/schedule.js',
      find: 'WINDOW_MS = 4 * 3_600_000',
      put: 'WINDOW_MS = 3_600_000',
    },
    {
      name: 'a message is never given up',
      says: /window: /,
      file: 'dist/deliver/schedule.js',
      find: 'return attempt < MIN_ATTEMPTS ? delayMs : undefined;',
      put: 'return delayMs;',
    },
  ]),
  ...inRealRounds('reloads of one process on SQLite', [
    {
      name: 'a destination that is switched off keeps sending',
      says: /settings: /,
      file: 'dist/deliver/deliverer.js',
      find: 'settings.destinations.filter(({ enabled }) => enabled)',
      put: 'settings.destinations',
    },
    {
      name: 'requests that wait for their turn are forgotten by a reload',
      says: /stop: |drain: /,
      file: 'dist/deliver/dispatcher.js',
      find: `for (const endpoint of unused)
            endpoint.retire();`,
      put: ';',
    },
    {
      name: 'a message that one secret is refused for is dead',
      says: /dead letters: /,
      file: 'dist/deliver/send.js',
      find: 'next.length > 0 && refusesSignature(outcome)',
      put: 'false',
    },
  ]),
  ...inRealRounds('workers on PostgreSQL come and go', [
    {
      name: 'each worker takes the whole concurrency',
      says: /concurrency: /,
      file: 'dist/deliver/breaker.js',
      find: 'Math.floor(this.#cap / this.#workers)',
      put: 'this.#cap',
    },
  ]),
  {
    name: 'a commit does not wait for the standby',
    says: /lost/,
    proof: 8,
    package: 'destination',
    file: 'dist/store/postgres/connection.js',
    find: '-c jit=off',
    put: '-c jit=off -c synchronous_commit=local',
  },
]

/** Mutants of proof 7: each is looked for in rounds of one theme. */
function inRealRounds(theme, mutants) {
  return mutants.map((mutant) => ({ proof: 7, package: 'destination', theme, ...mutant }))
}

/** Mutants of proof 6: each is looked for in rounds of one theme. */
function inSimulation(theme, mutants) {
  return mutants.map((mutant) => ({ proof: 6, package: 'destination', theme, ...mutant }))
}

/** Mutants of proof 5: each is looked for in some rounds of one theme. */
function atRandom(theme, mutants) {
  const seeds = seedsOf(theme, SEEDS_A_MUTANT)
  return mutants.map((mutant) => ({
    proof: 5,
    package: 'sdk',
    file: 'analytics.js',
    seeds,
    ...mutant,
  }))
}

/**
 * Makes the copy, and gives the environment in which a proof runs on it.
 *
 * @throws {Error} if the text to be replaced does not occur exactly once, because then nothing would be broken
 */
export function makeMutant({ name, package: which, file, find, put }, number) {
  const copy = join(build, `mutant-${number}`)
  rmSync(copy, { recursive: true, force: true })
  mkdirSync(copy, { recursive: true })
  if (which === 'sdk') {
    cpSync(join(root, 'dist'), copy, { recursive: true })
  } else {
    for (const part of ['bin', 'dist', 'package.json']) {
      cpSync(join(root, 'destination', part), join(copy, part), { recursive: true })
    }
    symlinkSync(join(root, 'destination/node_modules'), join(copy, 'node_modules'))
  }
  writeFileSync(join(copy, file), partsOf({ name, package: which, file, find }).join(put))
  return which === 'sdk' ? { HOOKLINE_DIST: copy } : { HOOKLINE_DESTINATION: copy }
}

/** Throws if the built code does not have the place of each mutant, before hours of proofs end with that. */
export function checkMutants() {
  for (const mutant of MUTANTS) partsOf(mutant)
}

function partsOf({ name, package: which, file, find }) {
  const folder = join(root, which === 'sdk' ? 'dist' : 'destination')
  const parts = readFileSync(join(folder, file), 'utf8').split(find)
  if (parts.length === 2) return parts
  throw new Error(`“${name}”: ${file} has “${find}” ${parts.length - 1} times, not once.`)
}

export function removeMutants() {
  rmSync(build, { recursive: true, force: true })
}
