import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { Refusal } from '../http/refusal.js'
import { endWithClient } from '../http/server.js'
import type { Pauses } from '../deliver/pauses.js'
import type { PauseChanged, TestReport } from '../model/answers.js'
import type { Clock } from '../model/clock.js'
import type { Destination, Settings } from '../settings/settings.js'
import { actorOf } from './actor.js'
import { bodyOf, optionsOf, withBody } from './body.js'
import { sendTest } from './send-test.js'
import { EVENT_TYPES, type EventType } from '../model/call.js'
import type { Fields } from '../model/fields.js'
import { checkNames, invalid } from './parameters.js'

/** What the routes for one destination need. */
export interface DestinationRoutesParts {
  /** The current settings. */
  settings: () => Settings
  pauses: Pick<Pauses, 'of' | 'pause' | 'resume'>
  test: Tester
}

/** A body names some types, or has a reason. */
export const WITH_SMALL_BODY = withBody(32_768)

/** A request with the name of a destination in its path. */
export interface DestinationRequest {
  Params: { name: string }
}

/** Adds the routes that act on one destination. Like replays, they read any content type as JSON. */
export function addDestinationRoutes(
  routes: FastifyInstance,
  { settings, pauses, test }: DestinationRoutesParts,
): void {
  routes.post<DestinationRequest>('/destinations/:name/test', WITH_SMALL_BODY, (request, reply) =>
    test(settings(), request, reply),
  )

  routes.post<DestinationRequest>(
    '/destinations/:name/pause',
    WITH_SMALL_BODY,
    async (request): Promise<PauseChanged> => {
      const { name } = request.params
      const actor = actorOf(request)
      const { reason } = readPause(bodyOf(request))
      requireDestination(settings(), name)
      const wasPaused = await pauses.pause(name, { reason, by: 'operator' }, actor)
      return { destination: name, paused: pauses.of(name) ?? null, wasPaused }
    },
  )

  routes.post<DestinationRequest>(
    '/destinations/:name/resume',
    async (request): Promise<PauseChanged> => {
      const { name } = request.params
      const actor = actorOf(request)
      // A pause outlives its destination in the settings, and can be ended without it.
      if (pauses.of(name) === undefined) requireDestination(settings(), name)
      return { destination: name, paused: null, wasPaused: await pauses.resume(name, actor) }
    },
  )
}

/** Sends a test to the destination of a request {@link WITH_SMALL_BODY}. */
export type Tester = (
  settings: Settings,
  request: FastifyRequest<DestinationRequest>,
  reply: FastifyReply,
) => Promise<TestReport>

/** Makes what sends tests, one at a time to each destination. All routes of the process need the same one. */
export function createTester({ wall }: Pick<Clock, 'wall'>): Tester {
  /** The names of the destinations that are being tested. */
  const testing = new Set<string>()
  return async (settings, request, reply) => {
    const { name } = request.params
    const isOver = endWithClient(reply.raw)
    const { types } = readTest(optionsOf(request))
    const destination = requireDestination(settings, name)
    if (testing.has(name)) {
      const message = `A test of ${name} is running in this process. Send the request again when it has ended.`
      throw new Refusal(409, 'test_running', message)
    }
    testing.add(name)
    try {
      return await sendTest({ destination, types, network: settings, wall, isOver })
    } finally {
      testing.delete(name)
    }
  }
}

/** @throws {@link Refusal} if the settings do not have the destination. */
export function requireDestination({ destinations }: Settings, name: string): Destination {
  const found = destinations.find((one) => one.name === name)
  if (found) return found
  throw unknownDestination(name)
}

/** The answer if the settings do not have a destination. */
export function unknownDestination(name: string): Refusal {
  const message = `The settings have no destination ${JSON.stringify(name)}.`
  return new Refusal(404, 'unknown_destination', message)
}

/**
 * Reads which samples a test sends.
 *
 * @throws {@link Refusal}
 */
function readTest(body: Fields): { types: readonly EventType[] } {
  checkNames(body, ['types'])
  const { types } = body
  if (types === undefined) return { types: EVENT_TYPES }
  const expected = `a list of one or more of ${EVENT_TYPES.join(', ')}`
  if (!Array.isArray(types) || types.length === 0) throw invalid('types', expected, types)
  const wrong = types.findIndex((one) => !EVENT_TYPES.includes(one as EventType))
  if (wrong !== -1)
    throw invalid(`types[${wrong}]`, `one of ${EVENT_TYPES.join(', ')}`, types[wrong])
  return { types: EVENT_TYPES.filter((type) => types.includes(type)) }
}

/** In characters. A reason is shown in one line or a few. */
const MAX_REASON = 500

/**
 * Reads why a destination is paused.
 *
 * @throws {@link Refusal}
 */
function readPause(body: Fields): { reason: string } {
  checkNames(body, ['reason'])
  const { reason } = body
  const isText = typeof reason === 'string' && /\S/.test(reason)
  if (isText && reason.length <= MAX_REASON) return { reason }
  throw invalid('reason', `a text of 1 to ${MAX_REASON} characters`, reason)
}
