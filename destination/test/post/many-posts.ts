/**
 * Sends many requests to endpoints of all kinds. The process must end by itself, although nothing closes the posters.
 * With the argument `close`, the script closes them after all outcomes. It prints the outcomes and the resources that
 * are left.
 */
import { getActiveResourcesInfo } from 'node:process'
import { createNetwork } from '../../src/post/network.js'
import { createPoster, type Poster } from '../../src/post/poster.js'

const [, , close, ...urls] = process.argv
const network = createNetwork({ allowNetworks: ['127.0.0.0/8'], ca: [], deadlineMs: 5_000 })
const posters = urls.map((url) => createPoster({ url, headers: {}, concurrency: 20 }, network))

const codes: Record<string, number> = {}
const post = (poster: Poster) =>
  new Promise<void>((resolve) => {
    poster.post('{}', [], ({ code }) => {
      codes[code] = (codes[code] ?? 0) + 1
      resolve()
    })
  })

/** A few more requests at once than the endpoint's concurrency. */
async function postMany(poster: Poster): Promise<void> {
  for (let i = 0; i < 40; i++) await Promise.all(Array.from({ length: 25 }, () => post(poster)))
}
await Promise.all(posters.map(postMany))
if (close === 'close') await Promise.all(posters.map((poster) => poster.close()))
const kinds = ['TCPSocketWrap', 'TCPConnectWrap', 'TLSWrap', 'GetAddrInfoReqWrap', 'Immediate']
const left = getActiveResourcesInfo().filter((kind) => kinds.includes(kind))
console.log(JSON.stringify({ codes, left }))
