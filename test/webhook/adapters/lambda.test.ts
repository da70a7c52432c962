import { expect, test } from 'vitest'
import { adapterContract, type Start } from './contract.js'
import { gateways, serveLambda } from './lambda-server.js'
import { webhook, type LambdaRequest } from '../../../src/webhook/adapters/lambda.js'
import { signedRequest } from '../../../src/testing.js'

for (const [name, gateway] of Object.entries(gateways)) {
  const start: Start = (options, handle, before) => {
    const receive = webhook(options, (event) => {
      const answer = handle(event)
      return answer && { statusCode: answer.status, body: answer.text ?? '' }
    })
    const parsing = (request: LambdaRequest, context: undefined) => {
      const { body } = request
      const parsed: unknown = typeof body === 'string' ? JSON.parse(body || 'null') : body
      return receive({ ...request, body: parsed }, context)
    }
    return serveLambda(before === 'parser' ? parsing : receive, gateway)
  }
  adapterContract(`Lambda behind ${name}`, start, name === 'v2 in Base64' ? [] : ['parser'])
}

test('Lambda: an event with neither headers nor body is refused', async () => {
  const reply = await webhook({ secret: 's3cret' }, () => undefined)({}, undefined)
  expect(reply.statusCode).toBe(401)
})

test('Lambda: the load balancer, which has lists of values alone, is served', async () => {
  const { headers, body } = signedRequest('delete', { userId: 'u1' }, 's3cret')
  const lists = Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, [value]]))
  const receive = webhook({ secret: 's3cret' }, () => undefined)
  const reply = await receive({ multiValueHeaders: lists, body, isBase64Encoded: false }, undefined)
  expect(reply).toEqual({ statusCode: 204, body: '' })
})
