// The parts of the product that the simulation runs. A proof passes those of a copy with a defect.
import type { destinationQueues, unusedEndpoints } from '../../src/deliver/destination-queues.js'
import type { Dispatcher } from '../../src/deliver/dispatcher.js'
import type { Settler } from '../../src/deliver/settler.js'
import type { SharedBreakers } from '../../src/deliver/shared-breakers.js'
import type { createEnqueue } from '../../src/enqueue/enqueue.js'
import type { loadDriver } from '../../src/store/sqlite/driver.js'
import type { Engine } from '../../src/store/sqlite/engine.js'

export interface Stage {
  Dispatcher: typeof Dispatcher
  Settler: typeof Settler
  SharedBreakers: typeof SharedBreakers
  destinationQueues: typeof destinationQueues
  unusedEndpoints: typeof unusedEndpoints
  createEnqueue: typeof createEnqueue
  Engine: typeof Engine
  loadDriver: typeof loadDriver
}
