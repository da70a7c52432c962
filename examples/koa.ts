import Koa from 'koa'
import { webhook } from 'hookline/koa'

const { PORT = '3000', WEBHOOK_SECRET } = process.env
const app = new Koa()

const receive = webhook({ secret: WEBHOOK_SECRET }, (event) => {
  if (event.type === 'track') console.log(event.userId, 'did', event.event)
})
app.use(async (ctx, next) => {
  if (ctx.path === '/webhook') await receive(ctx, next)
  else await next()
})

app.listen(Number(PORT), () => {
  console.log(`Listening on http://localhost:${PORT}/webhook`)
})
