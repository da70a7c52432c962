import { describe, expect, test } from 'vitest'
import { ProcessRoom } from '../../src/deliver/process-room.js'

/** In characters: with room for 64 requests, a body of this length counts for one of them. */
const ONE = (32 * 1_048_576) / 64

/** A queue of a destination with one endpoint and nothing under way, but for these fields. */
const taker = (fields: { width?: number; weight?: number; underWay?: number; load?: number }) => ({
  ...{ width: 1, weight: undefined, underWay: 0, load: 0 },
  ...fields,
})

/** A room for 64 requests, of which so many are under way or coming. `destinations` share it. */
function roomFor64({ underWay = 0, coming = 0, destinations = 4 }) {
  const room = new ProcessRoom(64)
  room.take(underWay)
  room.expect(coming)
  room.shareAmong(destinations)
  return room
}

describe('the room of the process', () => {
  test.each([
    { underWay: 0, coming: 0, free: 64, isWorthClaiming: true },
    { underWay: 40, coming: 23, free: 1, isWorthClaiming: true },
    { underWay: 40, coming: 24, free: 0, isWorthClaiming: false },
    { underWay: 60, coming: 10, free: -6, isWorthClaiming: false },
  ])(
    'with $underWay requests under way and $coming coming has $free free',
    ({ free, isWorthClaiming, ...taken }) => {
      expect(roomFor64(taken)).toMatchObject({ free, isWorthClaiming })
    },
  )

  test('is free again after the end', () => {
    const room = roomFor64({ underWay: 40, coming: 20 })
    room.expect(-20)
    room.take(-39)
    expect(room.free).toBe(63)
  })

  test.each([
    { of: 'any load while more than half is free', underWay: 31, load: 31, hasRoom: true },
    { of: 'less than its share while half is taken', underWay: 32, load: 15, hasRoom: true },
    { of: 'its share while half is taken', underWay: 32, load: 16, hasRoom: false },
    { of: 'nothing while all is taken', underWay: 64, load: 0, hasRoom: false },
  ])('for a new message of a destination with $of: $hasRoom', ({ underWay, load, hasRoom }) => {
    expect(roomFor64({ underWay }).hasRoomFor(taker({ load }))).toBe(hasRoom)
  })

  test.each([
    { length: 0, weight: 1 },
    { length: ONE, weight: 1 },
    { length: ONE + 1, weight: 2 },
    { length: 10 * ONE, weight: 10 },
  ])('counts a body of $length characters as $weight requests', ({ length, weight }) => {
    expect(new ProcessRoom(64).weightOf('x'.repeat(length))).toBe(weight)
  })

  test.each([
    { max: 64, width: 1, weight: 3, each: 3 },
    { max: 64, width: 2, weight: 3, each: 6 },
    { max: 640, width: 2, weight: undefined, each: 20 },
    { max: 32, width: 2, weight: undefined, each: 2 },
  ])(
    'for $max requests counts a message to $width endpoints, of weight $weight, as $each',
    ({ max, width, weight, each }) => {
      expect(new ProcessRoom(max).roomOfEach({ ...taker({ width }), weight })).toBe(each)
    },
  )

  test.each([
    { of: 'half of the room that is free', left: 64, most: 32 },
    { of: 'its share once half is taken', left: 32, most: 16 },
    { of: 'what is left of its share', left: 32, underWay: 10, load: 10, most: 6 },
    { of: 'nothing beyond its share', left: 32, underWay: 16, load: 16, most: 0 },
    { of: 'what other claims have left', left: 5, most: 5 },
    { of: 'fewer large messages', left: 32, weight: 5, most: 3 },
    { of: 'fewer messages to several endpoints', left: 32, width: 4, most: 4 },
    { of: 'one message, however large it is', left: 32, weight: 40, most: 1 },
    {
      of: 'one more large message up to its share',
      left: 32,
      weight: 40,
      underWay: 1,
      load: 15,
      most: 1,
    },
  ])('lets a claim of one in four destinations bring $of', ({ left, most, ...fields }) => {
    expect(roomFor64({}).mostOf(taker({ weight: 1, ...fields }), left)).toBe(most)
  })

  test.each([
    { underWay: 12, coming: 4, width: 2, most: Infinity },
    { underWay: 13, coming: 4, width: 2, most: 4 },
    { underWay: 13, coming: 4, width: 4, most: 2 },
  ])(
    'with $underWay under way and $coming coming lets $most wait at each of $width endpoints of one in four destinations',
    ({ width, most, ...taken }) => {
      expect(roomFor64(taken).waitingAt({ width })).toBe(most)
    },
  )

  test('has a share for each of more destinations than requests', () => {
    expect(roomFor64({ destinations: 1_000 }).mostOf(taker({ weight: 1, load: 0 }), 32)).toBe(1)
  })
})
