/** @module hookline/express */

import type { Request, RequestHandler, Response } from 'express'
import type { WebhookEvent } from '../events.js'
import { nodeBody } from '../node-body.js'
import { receiver, type ReceiverOptions } from '../receive.js'
import { isSigned } from '../signature.js'

export type { ReceiverOptions, WebhookEvent }

/**
 * An Express route (4 and 5) that gives the handler verified events and refuses everything else.
 *
 * It reads the body itself, and takes `req.rawBody` or the parsed `req.body` where a parser was there
 * first. A handler that sends nothing is answered 204 once it has returned or its promise has resolved;
 * what it throws goes to `next`. Answer within the destination's 5 seconds: leave long work to a queue.
 *
 * @example
 * ```ts
 * import express from 'express'
 * import { webhook } from 'hookline/express'
 *
 * const app = express()
 * app.post('/webhook', webhook({ secret: process.env.WEBHOOK_SECRET }, async (event) => {
 *   if (event.type === 'track') await save(event.event, event.properties)
 * }))
 * ```
 */
export function webhook(
  options: ReceiverOptions<[req: Request, res: Response]>,
  handler: (event: WebhookEvent, req: Request, res: Response) => unknown,
): RequestHandler {
  const receive = receiver(options, isSigned)

  async function handle(req: Request, res: Response): Promise<void> {
    const body = (maxBytes: number) => nodeBody(req, req, MEND, maxBytes)
    const verdict = await receive(req.headers['x-signature'], body, req, res)
    if ('refusal' in verdict) {
      res.status(verdict.refusal.status).json(verdict.refusal.body)
      return
    }
    await handler(verdict.event, req, res)
    if (res.headersSent) return
    if (res.statusCode === 200) res.status(204)
    res.end()
  }

  return (req, res, next) => {
    handle(req, res).catch(next)
  }
}

const MEND =
  'Mount this route before what reads the body, or keep the bytes: ' +
  'express.json({ verify: (req, _res, raw) => { req.rawBody = raw } }).'
