import express from 'express'
import { webhook } from 'hookline/express'

const { PORT = '3000', WEBHOOK_SECRET } = process.env
const app = express()

app.post(
  '/webhook',
  webhook({ secret: WEBHOOK_SECRET }, (event) => {
    if (event.type === 'track') console.log(event.userId, 'did', event.event)
  }),
)
app.use(express.json()) // for all other routes; the webhook verifies before and after this line

app.listen(Number(PORT), () => {
  console.log(`Listening on http://localhost:${PORT}/webhook`)
})
