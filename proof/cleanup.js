// What a run has started outlives no end of it: processes, and disks that it has mounted.
const acts = new Set()

/** Does `act` when the run ends, however it does, unless what this gives was called before. */
export function atEnd(act) {
  acts.add(act)
  return () => acts.delete(act)
}

process.on('exit', () => {
  for (const act of acts) {
    try {
      act()
    } catch {
      // It has gone by itself.
    }
  }
})
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => process.exit(1))
