/** @module hookline/express */

import type { NextFunction, Request, Response } from 'express'
import type { WebhookEvent } from '../events.js'
import { nodeBody } from '../node-body.js'
import { fail, receiver, type ReceiverOptions } from '../receive.js'
import { isSigned } from '../signature.js'

export type { ReceiverOptions, WebhookEvent }

/**
 * Creates an Express route (Express 4 and 5) that passes verified events to the handler and refuses every
 * other request.
 *
 * The route reads the body itself. If a parser has read it before, the route uses `req.rawBody` or the
 * parsed `req.body`. If the handler has begun no answer when it returns, or when its promise resolves, the
 * route answers 204. So a handler that answers later returns a promise. Errors of the handler go to `next`,
 * or reject the promise if there is none. The destination waits 5 seconds for the answer: put long work into a queue.
 *
 * @throws TypeError that names the option, or the handler, if it is missing or not what it should be.
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
): (req: Request, res: Response, next?: NextFunction) => Promise<void> {
  const receive = receiver(options, handler, isSigned)

  async function handle(req: Request, res: Response): Promise<void> {
    const body = (maxBytes: number) => nodeBody(req, req, HOW_TO_KEEP_THE_BODY, maxBytes)
    const verdict = await receive(req.headers['x-signature'], body, req, res)
    if ('refusal' in verdict) {
      res.status(verdict.refusal.status).json(verdict.refusal.body)
      return
    }
    const hasBegun = watchAnswer(res)
    await handler(verdict.event, req, res)
    if (res.headersSent || hasBegun()) return
    if (res.statusCode === 200) res.status(204)
    res.end()
  }

  return (req, res, next) =>
    handle(req, res)
      .catch((error: unknown) => fail(error, res, 'res.status(400).end()', ['route', 'router']))
      .catch(next)
}

/** Notices an answer that sends its headers in a later turn of the event loop: a stream, a file or a view. */
function watchAnswer(res: Response): () => boolean {
  let hasBegun = false
  const begin = () => {
    hasBegun = true
  }
  res.once('pipe', begin)
  for (const name of ['sendFile', 'render'] as const) {
    // Express before 4.8 has no sendFile. The response of a test may have neither.
    const method = (res[name] as ((...args: unknown[]) => void) | undefined)?.bind(res)
    if (method)
      res[name] = (...args: unknown[]) => {
        // A view with a callback goes to the callback: it may be for a mail.
        if (name === 'sendFile' || !args.some((arg) => typeof arg === 'function')) begin()
        method(...args)
      }
  }
  return () => hasBegun
}

const HOW_TO_KEEP_THE_BODY =
  'Mount this route before the middleware that reads the body, or keep the bytes: ' +
  'express.json({ verify: (req, _res, raw) => { req.rawBody = raw } }).'
