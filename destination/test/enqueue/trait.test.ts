import { expect, test } from 'vitest'
import { traitOf } from '../../src/enqueue/trait.js'

test.each([
  ['VIP Users', 'vip_users'],
  ['vip_users', 'vip_users'],
  ['First-time shoppers (EU)', 'first_time_shoppers_eu'],
  ['bigSpenders', 'big_spenders'],
  ['HTTPServerAdmins', 'http_server_admins'],
  ['Q4Buyers2024', 'q4_buyers2024'],
  ['Last 7 Days', 'last_7_days'],
  ['7days', '7days'],
  ['Café Élite', 'cafe_elite'],
  ['Ação', 'acao'],
  ["Ann's friends", 'anns_friends'],
  ['Große Kunden', 'große_kunden'],
  ['Новые клиенты', 'новые_клиенты'],
  ['常連 客', '常連_客'],
  ['  __a--b__  ', 'a_b'],
  ['__proto__', 'proto'],
  ['🎉!', ''],
  ['', ''],
])('the trait of the audience %j is %j', (audience, trait) => {
  expect(traitOf(audience)).toBe(trait)
  expect(traitOf(trait)).toBe(trait)
})
