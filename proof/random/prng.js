// Chance that can be repeated: the same seed gives the same numbers on every machine.

/** Mulberry32: 32 bits of state, enough for choices in a test. Gives a function with numbers from 0 to below 1. */
function prng(seed) {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

/** The same chance, in the forms that a plan needs. */
export function dice(seed) {
  const random = prng(seed)
  for (let turn = 0; turn < 4; turn += 1) random() // neighbouring seeds begin with similar numbers
  const between = (least, most) => Math.floor(least + random() * (most - least + 1))
  return {
    between,
    chance: (share) => random() < share,
    pick: (choices) => choices[Math.floor(random() * choices.length)],
  }
}
