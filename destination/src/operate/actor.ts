import type { FastifyRequest } from 'fastify'
import type { Actor } from '../model/audit.js'
import { decodeActor, MAX_ACTOR } from '../model/actor.js'
import type { Fields } from '../model/fields.js'
import { invalid, texts } from './parameters.js'

/** Who sends a request that changes something. @throws Refusal */
export function actorOf({ raw }: Pick<FastifyRequest, 'raw'>): Actor {
  return { by: readActor(raw.headers), from: raw.socket.remoteAddress ?? '' }
}

/** Reads `X-Actor`: who the client says that it is. @throws {@link Refusal} */
function readActor(headers: Fields): string | null {
  const { 'x-actor': actor } = texts(headers, ['x-actor'])
  if (actor === undefined || actor === '') return null
  const name = decodeActor(actor)
  if (name !== undefined) return name
  const expected = `a name of 1 to ${MAX_ACTOR} characters, in ASCII or as UTF-8''Zo%C3%AB`
  throw invalid('X-Actor', expected, actor)
}
