import { destinationQueues, unusedEndpoints } from '../../src/deliver/destination-queues.js'
import { Dispatcher } from '../../src/deliver/dispatcher.js'
import { Settler } from '../../src/deliver/settler.js'
import { SharedBreakers } from '../../src/deliver/shared-breakers.js'
import { createEnqueue } from '../../src/enqueue/enqueue.js'
import { loadDriver } from '../../src/store/sqlite/driver.js'
import { Engine } from '../../src/store/sqlite/engine.js'
import type { Stage } from './stage.js'

/** The deliver stage as it is. */
export const thisStage: Stage = {
  ...{ Dispatcher, Settler, SharedBreakers, destinationQueues, unusedEndpoints, createEnqueue },
  ...{ Engine, loadDriver },
}
