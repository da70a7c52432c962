import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { SyncAudience } from '../enqueue/audience.js'
import { readOwnBodies } from '../http/read-body.js'
import { JSON_TYPE, Refusal, show } from '../http/refusal.js'
import { allowSlowBody } from '../http/server.js'
import type { DeleteUser } from '../enqueue/deletion.js'
import { StoreError } from '../store/store-error.js'
import { traitOf } from '../enqueue/trait.js'
import type { Access } from './access.js'
import { bodyOf, withBody } from './body.js'
import { checkAgain, guard } from './guard.js'
import { readMemberCount, readMembers } from './members.js'
import { checkNames } from './parameters.js'

/** What the routes that change data need. */
export interface ActRoutesParts extends Access {
  syncAudience: SyncAudience
  deleteUser: DeleteUser
}

/**
 * Adds the routes that change audiences and delete users. They read the bodies themselves,
 * because a list of members may be too large to hold in memory.
 */
export function addActRoutes(app: FastifyInstance, parts: ActRoutesParts): void {
  void app.register((routes, _options, done) => {
    readOwnBodies(routes)
    guard(routes, parts)
    routes.put<AudienceRequest>('/v1/audiences/:name', (request, reply) =>
      putAudience(parts, request, reply),
    )
    routes.post('/v1/deletions', withBody(MAX_DELETION_BYTES), (request, reply) =>
      postDeletion(parts, request, reply),
    )
    done()
  })
}

/** The longest pause within a list, in ms. A list may be long and its client slow, but a silent client is cut off. */
const LIST_IDLE_MS = 60_000

interface AudienceRequest {
  Params: { name: string }
  Querystring: { count?: unknown }
}

async function putAudience(
  { syncAudience }: ActRoutesParts,
  request: FastifyRequest<AudienceRequest>,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const { raw, params, query } = request
  const audience = traitOf(params.name)
  if (audience === '') {
    const message = `The name of an audience must contain a letter or a digit; got ${show(params.name)}.`
    throw new Refusal(400, 'invalid_audience', message)
  }
  const contentType = raw.headers['content-type']
  checkNames(query, ['count'])
  const count = readMemberCount(query.count, contentType)
  allowSlowBody(raw, LIST_IDLE_MS)
  try {
    const members = whileAllowed(request, readMembers(raw, contentType, count))
    return await answer(reply, { audience, ...(await syncAudience(audience, members)) })
  } catch (error) {
    if (!(error instanceof StoreError) || error.code !== 'superseded') throw error
    const message =
      'A newer list of the same audience arrived while this one was read. The newer list replaces this one.'
    throw new Refusal(409, 'audience_superseded', message)
  }
}

/** Ends with an error once the token of the request is withdrawn: a list may take any time. Nobody leaves then. */
async function* whileAllowed(
  request: FastifyRequest,
  members: AsyncIterable<string[]>,
): AsyncGenerator<string[]> {
  for await (const piece of members) {
    await checkAgain(request)
    yield piece
  }
  await checkAgain(request)
}

/** In bytes. A user's id needs far less. */
const MAX_DELETION_BYTES = 32_768

async function postDeletion(
  { deleteUser }: ActRoutesParts,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const body = bodyOf(request)
  const { userId } = body
  const id = typeof userId === 'number' && Number.isSafeInteger(userId) ? String(userId) : userId
  if (typeof id !== 'string' || id === '' || id.includes('\0')) {
    const message = `The "userId" in the body must be a non-empty string without NUL, or a whole number; got ${show(userId)}.`
    throw new Refusal(400, 'invalid_user', message)
  }
  // Another id in the body would stay, and whoever asked would take it for deleted.
  checkNames(body, ['userId'])
  return answer(reply, { userId: id, ...(await deleteUser(id)) })
}

function answer(reply: FastifyReply, result: object): FastifyReply {
  reply.header('content-type', JSON_TYPE)
  return reply.send(JSON.stringify({ success: true, ...result }))
}
