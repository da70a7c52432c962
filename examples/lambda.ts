// The handler of a Lambda function behind API Gateway (REST or HTTP API) or a function URL.
import { webhook } from 'hookline/lambda'

export const handler = webhook({ secret: process.env['WEBHOOK_SECRET'] }, (event) => {
  if (event.type === 'track') console.log(event.userId, 'did', event.event)
})
