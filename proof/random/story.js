// A round as a reader needs it: what was played, what happened, in order, and which promises broke.
const KEPT = 60
const round = (time) => Math.round(time)

const spell = (value) =>
  JSON.stringify(value, (key, one) =>
    Array.isArray(one) && one.length > 12 ? `${one.length} entries` : one,
  )

const list = (ids = []) =>
  ids.length > 4
    ? `${ids.length} messages, ${ids[0]} to ${ids.at(-1)}`
    : `messages ${ids.join(', ')}`

const LINES = {
  phase: ({ phase }) => `endpoint: ${phase}`,
  request: ({
    n,
    port,
    ids,
    bytes,
    action,
    status,
    verdict,
    from,
    until,
    isOpen,
    storedAt,
    retryCount,
  }) =>
    `request ${n} on ${port}: ${ids ? list(ids) : 'not read'}${bytes ? `, ${bytes} bytes` : ''}${retryCount ? `, retry ${retryCount}` : ''}: ${action ?? 'cut'} ${status ?? ''} → ${verdict} ${isOpen ? 'still open' : `after ${round(until - from)} ms`}${storedAt ? ', stored' : ''}`,
  calls: ({ from, to }) => `calls ${from} to ${to - 1}`,
  call: ({ n, name, timeout, books }) =>
    `${name}(${timeout ?? ''}) number ${n}, ${books.pending} pending`,
  answer: ({ n, name, result }) => `${name} number ${n} gives ${JSON.stringify(result)}`,
  failed: ({ code, status = '', ids }) => `onFailed ${code} ${status}: ${list(ids)}`,
  ended: () => 'the script ends',
  exit: ({ code, books }) => `exit ${code}, ${spell(books)}`,
  rest: () => 'all but the poison has its outcome',
}

function timeline({ load }, views) {
  const [{ life, everything, phases }] = views
  const lines = [
    ...everything.map((line) => ({ ...line, at: line.from })),
    ...phases,
    ...views.flatMap((view) => view.life.lines),
    ...views.flatMap((view) =>
      view.life.freezes.flatMap(({ who, from, until }) => [
        { at: from, text: `the ${who} freezes` },
        { at: until, text: `the ${who} thaws` },
      ]),
    ),
  ]
  const told = lines
    .filter(({ kind, text }) => text || LINES[kind])
    .filter(({ kind, from }) => kind !== 'calls' || load.turns.length < 10 || from === 0)
    .sort((one, other) => one.at - other.at)
    .map(
      (line) =>
        `${String(round(line.at - life.begun)).padStart(7)} ms  ${line.text ?? LINES[line.kind](line)}`,
    )
  if (told.length <= KEPT) return told
  return [
    ...told.slice(0, KEPT / 2),
    `    … ${told.length - KEPT} more …`,
    ...told.slice(-KEPT / 2),
  ]
}

/** The story of a round, in lines. */
export function storyOf({ plan }, views, breaches) {
  const { client, load, calls, endpoint, freezes, end } = plan
  const count = load.turns.reduce((total, [, of]) => total + of, 0)
  return [
    `seed ${plan.seed}: ${plan.theme}`,
    ...breaches.map(({ promise, fault }) => `  BROKEN: ${promise}: ${fault}`),
    `  client: ${spell(client)}`,
    `  load: ${count} messages of ${load.bytes?.join(' to ')} bytes in ${load.turns.length} turns${load.gateBytes ? `, waiting at ${load.gateBytes} bytes` : ''}; calls ${spell(calls)}; end ${spell(end)}`,
    `  endpoint: ${spell(endpoint)}`,
    ...(freezes.length > 0 ? [`  freezes: ${spell(freezes)}`] : []),
    ...timeline(plan, views).map((line) => `  ${line}`),
    ...views.flatMap(({ life }) =>
      life.stderr ? [`  stderr: ${life.stderr.slice(0, 1_000)}`] : [],
    ),
  ]
}
