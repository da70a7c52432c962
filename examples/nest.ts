import 'reflect-metadata'
import { Controller, HttpCode, Inject, Injectable, Module, Post, Req, Res } from '@nestjs/common'
import { NestFactory } from '@nestjs/core'
import type { Request, Response } from 'express'
import { webhook, type WebhookEvent } from 'hookline/express'

const { PORT = '3000', WEBHOOK_SECRET, RAW_BODY } = process.env

@Injectable()
class Customers {
  save(event: WebhookEvent): void {
    if (event.type === 'track') console.log(event.userId, 'did', event.event)
    if (event.type === 'delete') throw new Error(`${event.userId} cannot be deleted here`)
  }
}

@Controller('webhook')
class WebhookController {
  readonly #route = webhook({ secret: WEBHOOK_SECRET }, (event) => {
    this.customers.save(event)
  })

  constructor(@Inject(Customers) private readonly customers: Customers) {}

  /** The promise passes the errors of the handler to Nest, which otherwise believes that it has succeeded. */
  @Post()
  @HttpCode(204)
  receive(@Req() req: Request, @Res() res: Response): Promise<void> {
    return this.#route(req, res)
  }
}

@Module({ controllers: [WebhookController], providers: [Customers] })
class AppModule {}

// It works without rawBody too: docs/nestjs.md has the difference.
const app = await NestFactory.create(AppModule, { rawBody: RAW_BODY === '1', logger: ['error'] })
await app.listen(Number(PORT))
console.log(`Listening on http://localhost:${PORT}/webhook`)
