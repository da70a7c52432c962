// Answers with status 200 that only want to do harm. Each tells what it rejects by the contract: entries with an
// index that is an integer within the batch. `mayReject` are those that a reader may understand in either way. One that
// `breaksOff` ends before it says what it rejects, so that nobody knows.
const json = (rejected) => JSON.stringify({ rejected })

const DEEP = '['.repeat(100_000) + ']'.repeat(100_000)
const LARGE = 2_000_000

/** The answers for a batch of so many messages. */
export const HOSTILE = [
  () => ({ body: json([{ index: 0, code: { toString: 1 } }]), rejects: [0] }),
  () => ({
    body: json([{ index: 0, code: 'x', message: { toJSON: 1, toString: null } }]),
    rejects: [0],
  }),
  () => ({ body: json([{ index: 0 }, { index: 0, code: null }, { index: 0 }]), rejects: [0] }),
  (count) => ({ body: json([{ index: -1 }, { index: count }, { index: 1e9 }, { index: 0.5 }]) }),
  () => ({ body: json([{ index: '0' }, { index: [0] }, { index: null }]), mayReject: [0] }),
  () => ({ body: json([null, 7, 'x', [0], { code: 'x' }]) }),
  () => ({ body: json({ length: 1e9 }) }),
  () => ({ body: json('all') }),
  () => ({ body: 'null' }),
  () => ({ body: '[]' }),
  () => ({ body: '' }),
  () => ({ body: '{"rejected":[{"index":0,"code":', breaksOff: true }),
  () => ({
    body: '{"__proto__":{"rejected":1},"rejected":[{"index":0,"__proto__":null}]}',
    rejects: [0],
  }),
  () => ({ body: '['.repeat(100_000) }),
  // It can be parsed, and is too deep to be made a string of.
  () => ({ body: `{"rejected":[{"index":0,"message":${DEEP}}]}`, rejects: [0] }),
  () => ({ body: Buffer.from([0xff, 0xfe, 0x00, 0x7b, 0x22]) }),
  // Far over what an answer needs: a reader may stop before its end.
  () => ({ body: json(Array(LARGE / 10).fill({ index: 0 })), mayReject: [0] }),
  () => ({ body: json([{ index: 0, code: 'c'.repeat(LARGE) }]), mayReject: [0] }),
  (count) => ({
    body: json(Array.from({ length: count }, (_, index) => ({ index, code: index, message: {} }))),
    rejects: Array.from({ length: count }, (_, index) => index),
  }),
]
