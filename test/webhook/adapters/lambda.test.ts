import { expect, test } from 'vitest'
import { adapterContract, ROWS, type Start } from './contract.js'
import { gateways, serveLambda } from './lambda-server.js'
import {
  webhook,
  type LambdaRequest,
  type LambdaResponse,
} from '../../../src/webhook/adapters/lambda.js'
import { signedRequest } from '../../../src/testing.js'

/** As the error handler of middy does. */
const answerOf = ({ statusCode, status }: Record<string, number>) => ({
  statusCode: statusCode ?? status ?? 500,
  body: '',
})

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
    const inner = before === 'parser' ? parsing : receive
    return serveLambda((request, context) => inner(request, context).catch(answerOf), gateway)
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

test('Lambda: an error of http-errors keeps its status, and the one of another server loses it', async () => {
  const { headers, body } = signedRequest('delete', { userId: 'u1' }, 's3cret')
  const failing = (error: Error) =>
    webhook({ secret: 's3cret' }, () => Promise.reject(error))({ headers, body }, undefined)
  const gone = Object.assign(new Error('gone'), { statusCode: 410, expose: true })
  await expect(failing(gone)).rejects.toBe(gone)
  const cause = Object.assign(new Error('of the CRM'), { statusCode: 401 })
  const error = await failing(cause).catch((thrown: unknown) => thrown)
  expect(error).toMatchObject({
    message: expect.stringContaining("return { statusCode: 400, body: '' }") as string,
    cause,
  })
  expect(error).not.toHaveProperty('statusCode')
})

test.each(ROWS)('Lambda: what the handler returns is no answer if it is %o', async (row) => {
  const { headers, body } = signedRequest('delete', { userId: 'u1' }, 's3cret')
  const receive = webhook({ secret: 's3cret' }, () => Promise.resolve(row as undefined))
  expect(await receive({ headers, body }, undefined)).toEqual({ statusCode: 204, body: '' })
})

test('Lambda: a status in a string is an answer, as it is for the gateways', async () => {
  const { headers, body } = signedRequest('delete', { userId: 'u1' }, 's3cret')
  const answer = { statusCode: '503', body: '' } as unknown as LambdaResponse
  const receive = webhook({ secret: 's3cret' }, () => answer)
  expect(await receive({ headers, body }, undefined)).toBe(answer)
})

test('Lambda: a header that only one of the two fields has in lower case counts once', async () => {
  const { headers, body } = signedRequest('delete', { userId: 'u1' }, 's3cret')
  const signature = headers['X-Signature']
  const receive = webhook({ secret: 's3cret' }, () => undefined)
  const statusOf = async (request: LambdaRequest) =>
    (await receive({ body, ...request }, undefined)).statusCode
  const lower = { 'x-signature': signature }
  expect(
    await statusOf({ headers: lower, multiValueHeaders: { 'X-Signature': [signature] } }),
  ).toBe(204)
  expect(await statusOf({ headers: lower, multiValueHeaders: { 'X-Signature': undefined } })).toBe(
    204,
  )
  expect(await statusOf({ headers: lower, multiValueHeaders: { Host: ['a'] } })).toBe(204)
  expect(
    await statusOf({
      headers: lower,
      multiValueHeaders: { 'X-Signature': [signature, signature] },
    }),
  ).toBe(401)
  expect(await statusOf({ headers: { ...lower, 'X-Signature': signature } })).toBe(401)
})
