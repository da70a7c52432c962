// Describes the faults of a measurement; empty if every message was accepted and delivered correctly.

/** The faults of a client: every posted message must be accepted. */
export const faultsOfClient = ({ refusals }) =>
  Array.from(refusals, ([refusal, count]) => `${count} batches: ${refusal}`)

/** The faults of an endpoint: it must get each message exactly once, signed, with a unique id. */
export const faultsOfEndpoint = ({ found }, expected) =>
  [
    found.arrived < expected && `${expected - found.arrived} of ${expected} messages missing`,
    found.duplicated > 0 && `${found.duplicated} duplicated`,
    found.foreign > 0 && `${found.foreign} unknown messages`,
    found.forged > 0 && `${found.forged} wrong signatures`,
    found.sharedIds > 0 && `${found.sharedIds} messages without an id of their own`,
    found.retries > 0 && `${found.retries} retries`,
  ].filter(Boolean)
