import { isUtf8 } from 'node:buffer'
import type { FastifyRequest } from 'fastify'
import { parseBody } from '../http/json-body.js'
import type { Fields } from '../model/fields.js'
import { Refusal } from '../http/refusal.js'
import { ignoreContentType, readBody } from '../http/read-body.js'

/**
 * The options of a guarded route that reads the JSON of its body, whatever its content type is. Its handler starts once the whole body
 * has arrived, and after the guard has checked the rights of the request again. So what the handler looks up holds then.
 *
 * @param maxBytes - The limit in bytes, before and after decompression.
 */
export function withBody(maxBytes: number) {
  return {
    onRequest: ignoreContentType,
    preValidation: async (request: FastifyRequest) => {
      request.body = await readBody(request.raw, maxBytes)
    },
  }
}

/** The JSON of the body of a route {@link withBody}. @throws Refusal */
export function bodyOf({ body }: FastifyRequest, isOptional = false): Fields {
  const bytes = body as Buffer
  // A secret that arrives in another encoding would be another secret.
  if (!isUtf8(bytes)) throw new Refusal(400, 'invalid_json', 'The body must be JSON in UTF-8.')
  return parseBody(bytes, undefined, isOptional)
}

/** The same where every field of the body is optional. @throws Refusal */
export const optionsOf = (request: FastifyRequest): Fields => bodyOf(request, true)

/** The parameters of a query. The server has parsed it into an object. */
export const queryOf = ({ query }: Pick<FastifyRequest, 'query'>): Fields => query as Fields

/** The parameters in a path. The server has parsed it into an object. */
export const pathOf = ({ params }: Pick<FastifyRequest, 'params'>): Fields => params as Fields
