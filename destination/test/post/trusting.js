// Sends a message to each URL, and prints the outcomes. It trusts a certificate in addition to what the process trusts.
import process from 'node:process'

const [, , compiledDir, certificate, ...urls] = process.argv
const { createNetwork } = await import(`${compiledDir}/post/network.js`)
const { createPoster } = await import(`${compiledDir}/post/poster.js`)

const network = createNetwork({ allowNetworks: ['127.0.0.0/8'], ca: [certificate] })
const posts = urls.map((url) => {
  const poster = createPoster({ url, headers: {}, concurrency: 1 }, network)
  return new Promise((resolve) => poster.post('{}', [], resolve))
})
const outcomes = await Promise.all(posts)
console.log(outcomes.map(({ code }) => code).join(' '))
await network.connections.close()
