/** Runs all jobs, at most this many at a time. The results are in the order of the jobs. */
export async function inParallel(jobs, atATime, act) {
  const results = []
  let next = 0
  const worker = async () => {
    while (next < jobs.length) {
      const at = next++
      results[at] = await act(jobs[at])
    }
  }
  await Promise.all(Array.from({ length: atATime }, worker))
  return results
}
