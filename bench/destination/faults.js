// What is wrong with a measurement, in words; none if every message did what it should.

/** Of a client: all that was posted is to be accepted. */
export const faultsOfClient = ({ refusals }) =>
  Array.from(refusals, ([refusal, count]) => `${count} batches: ${refusal}`)

/** Of an endpoint: each of the messages once, signed, under an id of its own. */
export const faultsOfEndpoint = ({ found }, expected) =>
  [
    found.arrived < expected && `${expected - found.arrived} of ${expected} messages missing`,
    found.duplicated > 0 && `${found.duplicated} duplicated`,
    found.foreign > 0 && `${found.foreign} unknown messages`,
    found.forged > 0 && `${found.forged} wrong signatures`,
    found.sharedIds > 0 && `${found.sharedIds} messages without an id of their own`,
    found.retries > 0 && `${found.retries} retries`,
  ].filter(Boolean)
