// Serves the application on Node.
import { createServer, type IncomingMessage } from 'node:http'
import { text } from 'node:stream/consumers'
import { createApp, type App } from './app.js'

const { PORT = '', ENDPOINT = '', SECRET = '' } = process.env
const app = createApp({ ENDPOINT, SECRET })

createServer((request, response) => {
  void answer(app, request).then(async (answered) => {
    response.writeHead(answered.status).end(await answered.text())
  })
}).listen(Number(PORT), '127.0.0.1')

async function answer(app: App, request: IncomingMessage): Promise<Response> {
  const { method = 'GET', url = '/', headers } = request
  const body = method === 'POST' ? await text(request) : null
  const signature = String(headers['x-signature'] ?? '')
  const sent = new Request(`http://localhost${url}`, {
    method,
    body,
    headers: signature ? { 'X-Signature': signature } : {},
  })
  return app(sent)
}
