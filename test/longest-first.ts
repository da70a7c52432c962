import { BaseSequencer, type TestSpecification } from 'vitest/node'

/** Short files that take long: their tests are in other files, or wait for processes. */
const LONG =
  /contract|several|simulation|monitor|secrets|send\.test|exit\.test|spool\.test|attempt\.test/

/**
 * The order of the test files. Vitest starts with the largest as long as it does not know how long each takes, as in a clean
 * checkout. Then the last ones would take long, with nothing beside them.
 */
export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files)
    const projects = new Set(sorted.map(({ project }) => project))
    // Files of one project have to stay together: they share their processes.
    return [...projects].flatMap((own) => {
      const all = sorted.filter(({ project }) => project === own)
      const isLong = ({ moduleId }: TestSpecification) => LONG.test(moduleId)
      return [...all.filter(isLong), ...all.filter((file) => !isLong(file))]
    })
  }
}
