// Sends many requests to endpoints of all kinds. The process must end by itself, although nothing closes the posters,
// unless the second argument is `close`. It prints the outcomes and the resources that are left.
// Usage: node many-posts.js COMPILED_DIR close|leave URL...
import { getActiveResourcesInfo } from 'node:process'

const [, , compiledDir, close, ...urls] = process.argv
const { createNetwork } = await import(`${compiledDir}/post/network.js`)
const { createPoster } = await import(`${compiledDir}/post/poster.js`)
const network = createNetwork({ allowNetworks: ['127.0.0.0/8'], ca: [], deadlineMs: 5_000 })
const posters = urls.map((url) => createPoster({ url, headers: {}, concurrency: 20 }, network))

const codes = {}
const post = (poster) =>
  new Promise((resolve) => {
    poster.post('{}', [], ({ code }) => {
      codes[code] = (codes[code] ?? 0) + 1
      resolve()
    })
  })

/** A few more requests at once than the endpoint's concurrency. */
async function postMany(poster) {
  for (let i = 0; i < 40; i++) await Promise.all(Array.from({ length: 25 }, () => post(poster)))
}
await Promise.all(posters.map(postMany))
if (close === 'close') {
  await Promise.all([...posters.map((poster) => poster.close()), network.connections.close()])
}
const kinds = ['TCPSocketWrap', 'TCPConnectWrap', 'TLSWrap', 'GetAddrInfoReqWrap', 'Immediate']
const left = getActiveResourcesInfo().filter((kind) => kinds.includes(kind))
console.log(JSON.stringify({ codes, left }))
