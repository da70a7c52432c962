import { expect, test } from 'vitest'
import { addToGroup, grouped } from '../../src/model/grouped.js'

test('groups, and the items of each, are in the order of the items', () => {
  const groups = grouped(['pear', 'fig', 'plum', 'apple'], (word) => word.charAt(0))
  expect([...groups]).toEqual([
    ['p', ['pear', 'plum']],
    ['f', ['fig']],
    ['a', ['apple']],
  ])
})

test('an item that is added comes last in its group', () => {
  const groups = grouped([1, 2, 3], (number) => number % 2)
  addToGroup(groups, 1, 5)
  addToGroup(groups, 7, 8)
  expect([...groups]).toEqual([
    [1, [1, 3, 5]],
    [0, [2]],
    [7, [8]],
  ])
})
