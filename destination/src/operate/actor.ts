import type { FastifyRequest } from 'fastify'
import type { Actor } from '../model/audit.js'
import { readActor } from './parameters.js'

/** Who sends a request that changes something. @throws Refusal */
export function actorOf({ raw }: Pick<FastifyRequest, 'raw'>): Actor {
  return { by: readActor(raw.headers), from: raw.socket.remoteAddress ?? '' }
}
