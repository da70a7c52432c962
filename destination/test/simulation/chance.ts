/** Chance that can be repeated: the same seed gives the same numbers on every machine. */
export interface Dice {
  /** A number from 0 to below 1. */
  random: () => number
  /** A whole number, both ends included. */
  between: (least: number, most: number) => number
  chance: (share: number) => boolean
  pick: <T>(choices: readonly T[]) => T
}

/** Mulberry32: 32 bits of state, enough for choices in a test. */
export function dice(seed: number): Dice {
  let state = seed >>> 0
  const random = () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
  for (let turn = 0; turn < 4; turn++) random() // neighbouring seeds begin with similar numbers
  return {
    random,
    between: (least, most) => Math.floor(least + random() * (most - least + 1)),
    chance: (share) => random() < share,
    // The cast holds: the index is below the length, and no caller passes an empty list.
    pick: (choices) => choices[Math.floor(random() * choices.length)] as (typeof choices)[number],
  }
}
