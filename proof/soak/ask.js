// What the admin API and the metrics say.
import { ADMIN_TOKEN } from './settings.js'

const headers = { authorization: `Bearer ${ADMIN_TOKEN}` }
const ANSWER_MS = 10_000

async function get(url) {
  const response = await fetch(url, { headers, signal: AbortSignal.timeout(ANSWER_MS) })
  if (response.status !== 200) throw new Error(`${url} is answered ${response.status}`)
  return response
}

export const askJson = async (url, path) => (await get(`${url}/v1/admin/${path}`)).json()

/** All deliveries in the store, as `{ id, destination, messageId, state, … }`. */
export async function askDeliveries(url, query = '') {
  const all = []
  for (let before = ''; ;) {
    const page = await askJson(url, `deliveries?limit=200${query}${before}`)
    all.push(...page.deliveries)
    if (page.next === null) return all
    before = `&before=${page.next}`
  }
}

/** The series of one metric, as `[labels, value]`. */
export async function askMetric(url, name) {
  const text = await (await get(`${url}/metrics`)).text()
  const lines = text.split('\n').filter((line) => line.startsWith(`${name}{`))
  return lines.map((line) => {
    const labels = Object.fromEntries(
      Array.from(line.matchAll(/(\w+)="([^"]*)"/g), ([, label, value]) => [label, value]),
    )
    return [labels, Number(line.slice(line.lastIndexOf(' ')))]
  })
}
