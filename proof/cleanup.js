// Ends the processes and unmounts the disks of a run, however the run ends.
const acts = new Set()

/** Calls `act` when the run ends, however it ends. The returned function cancels that. */
export function atEnd(act) {
  acts.add(act)
  return () => acts.delete(act)
}

process.on('exit', () => {
  for (const act of acts) {
    try {
      act()
    } catch {
      // It has ended already.
    }
  }
})
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => process.exit(1))
