import { spawnSync } from 'node:child_process'
import { expect, test } from 'vitest'
import { ADMIN_TOKEN, destination, endpoint, KEY, settingsFor, start } from '../run.js'

const isInstalled = spawnSync('promtool', ['--version']).status === 0
if (!isInstalled) console.log('promtool is not installed: its check of the metrics is left out.')

test.runIf(isInstalled)('promtool finds no fault in the metrics', async () => {
  const [crm, down] = [await endpoint(), await endpoint(500)]
  const webhooks = [{ url: crm.url, headers: {}, concurrency: 128, rateLimit: 1_000 }]
  const running = await start(
    settingsFor([destination([crm], { webhooks }), destination([down], { name: 'down' })]),
  )
  const properties = '{"total":1e400}'
  const call = `{"userId":"u","event":"E","messageId":"m","properties":${properties},"writeKey":"${KEY}"}`
  for (const body of [call, call, '{']) {
    await fetch(`${running.url}/v1/track`, { method: 'POST', body })
  }
  await Promise.all([crm.has(1), down.has(1)])
  const read = async () => {
    const headers = { Authorization: `Bearer ${ADMIN_TOKEN}` }
    return await (await fetch(`${running.url}/metrics`, { headers })).text()
  }
  await expect.poll(read).toContain('outcome="server_error"')
  const input = await read()
  for (const name of ['changed_numbers', 'duplicates', 'endpoint_rate_limit', 'messages']) {
    expect(input).toContain(`\nhookline_${name}`)
  }
  const { status, stdout, stderr } = spawnSync('promtool', ['check', 'metrics'], {
    input,
    encoding: 'utf8',
  })
  expect({ status, stdout, stderr }).toEqual({ status: 0, stdout: '', stderr: '' })
})
