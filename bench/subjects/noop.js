// What the measuring itself costs: the events are built, the loop turns, nothing else happens.

let sink

export function create() {
  return {
    track(event) {
      sink = event
    },
    pending: () => 0,
    flush: async () => sink,
    close: async () => sink,
    reportedLost: () => 0,
  }
}
