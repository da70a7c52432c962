import type { FastifyInstance } from 'fastify'
import { parseBody } from '../http/json-body.js'
import { ignoreContentType, readBody } from '../http/read-body.js'
import { Refusal } from '../http/refusal.js'
import type { TestReport } from '../model/answers.js'
import type { Destination, Settings } from '../settings/settings.js'
import { readTest, unknownDestination } from './parameters.js'
import { sendTest } from './send-test.js'

/** What the routes for one destination need. */
export interface DestinationRoutesParts {
  /** The current settings. */
  settings: () => Settings
}

/** In bytes. A body names some types at most. */
const MAX_BODY_BYTES = 32_768

interface DestinationRequest {
  Params: { name: string }
}

/** Adds the routes that act on one destination. Like replays, they read any content type as JSON. */
export function addDestinationRoutes(
  routes: FastifyInstance,
  { settings }: DestinationRoutesParts,
): void {
  /** The names of the destinations that are being tested. */
  const testing = new Set<string>()

  routes.post<DestinationRequest>(
    '/destinations/:name/test',
    { onRequest: ignoreContentType },
    async ({ raw, params: { name } }, reply): Promise<TestReport> => {
      const { types } = readTest(parseBody(await readBody(raw, MAX_BODY_BYTES)))
      const destination = requireDestination(settings(), name)
      if (testing.has(name)) {
        const message = `A test of ${name} is running in this process. Send the request again when it has ended.`
        throw new Refusal(409, 'test_running', message)
      }
      testing.add(name)
      try {
        const isOver = () => reply.raw.destroyed
        return await sendTest({ destination, types, network: settings(), isOver })
      } finally {
        testing.delete(name)
      }
    },
  )
}

/** @throws {@link Refusal} if the settings do not have the destination. */
function requireDestination({ destinations }: Settings, name: string): Destination {
  const found = destinations.find((one) => one.name === name)
  if (found) return found
  throw unknownDestination(name)
}
