// What can go wrong between a client and its endpoint. Each script is a fault that begins and ends while events are
// made; `refused` says that some messages can't be delivered, and are to be reported.
const during = (action) => ({ action })

export const SCRIPTS = [
  { name: 'no fault', ...during('ok') },
  { name: '500', ...during({ status: 500 }) },
  { name: '503, Retry-After: 1', ...during({ status: 503, headers: { 'retry-after': '1' } }) },
  { name: '429, Retry-After: 1', ...during({ status: 429, headers: { 'retry-after': '1' } }) },
  { name: 'port closed', begin: ({ sink }) => sink.shut(), end: ({ sink }) => sink.open() },
  { name: 'reset before the body', ...during('reset before') },
  { name: 'reset in the body', ...during('reset in') },
  { name: 'reset after the body, thrown away', ...during('reset after') },
  { name: 'reset after the body, stored', ...during('stored, reset'), mayRepeat: true },
  { name: 'reset in the reply, stored', ...during('stored, cut reply'), mayRepeat: true },
  { name: 'no answer', ...during('silence') },
  { name: 'an answer that is no HTTP', ...during('garbage') },
  { name: 'every answer takes 1 s', ...during({ lateMs: 1_000 }) },
  {
    name: '302 to a page',
    ...during({ status: 302, headers: { location: '/login' } }),
    refused: () => true,
  },
  {
    name: 'name does not resolve',
    host: 'collector.test',
    begin: ({ sink, tell }) => (tell('dns gone'), sink.drop()),
    end: ({ tell }) => tell('dns back'),
  },
  // Open connections stay open but carry no answers, even after new connections work again.
  {
    name: 'half-open connections',
    action: ({ socket }) => ((socket.isDead = true), 'silence'),
    mayWait: true,
  },
  {
    name: '413 over 4 KB',
    action: ({ body }) => (body && body.length > 4_096 ? { status: 413 } : 'ok'),
  },
  {
    name: 'a poison message in 100: 400',
    always: true,
    action: ({ ids }) => (ids?.some(isPoison) ? { status: 400 } : 'ok'),
    refused: isPoison,
  },
  {
    name: 'clock jumps an hour, and back; 500',
    ...during({ status: 500 }),
    begin: ({ tell }) => tell('clock ahead'),
    end: ({ tell }) => tell('clock back'),
  },
  {
    name: 'process stands still, connections reset',
    begin: ({ sink, child }) => (child.kill('SIGSTOP'), sink.drop()),
    end: ({ child }) => child.kill('SIGCONT'),
  },
  { name: 'gzip on; 500', ...during({ status: 500 }), options: { gzip: true } },
  {
    name: 'every second connection reset',
    action: ({ socket }) => (socket.number % 2 ? 'reset before' : 'ok'),
  },
]

/** One of a hundred messages in the scripts that refuse messages. */
function isPoison(id) {
  return Number(id) % 100 === 50
}
