import fc from 'fast-check'
import { expect, test } from 'vitest'
import { traitOf } from '../../src/enqueue/trait.js'
import { rounds } from '../rounds.js'

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
  ['Клиенты с историей', 'клиенты_с_историеи'],
  ['Νέοι πελάτες', 'νεοι_πελατες'],
  ['مُشْتَرِكُون', 'مشتركون'],
  ['Khách Việt Nam', 'khach_viet_nam'],
  ['常連 客', '常連_客'],
  ['バス会員', 'バス会員'],
  ['パス会員', 'パス会員'],
  ['ﾊﾞｽ会員', 'バス会員'],
  ['हिन्दी पाठक', 'हिन्दी_पाठक'],
  ['தமிழ் வாசகர்', 'தமிழ்_வாசகர்'],
  ['ผู้ใช้ จำนวน', 'ผู้ใช้_จำนวน'],
  ['신규 고객', '신규_고객'],
  ['VIP ❤️ 1️⃣st', 'vip_1st'],
  ['\u0301', ''],
  ['  __a--b__  ', 'a_b'],
  ['__proto__', 'proto'],
  ['🎉!', ''],
  ['', ''],
])('the trait of the audience %j is %j', (audience, trait) => {
  expect(traitOf(audience)).toBe(trait)
  expect(traitOf(trait)).toBe(trait)
})

test('a name with a letter or a digit has a trait, and the trait is its own trait', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), (audience) => {
      const trait = traitOf(audience)
      expect(traitOf(trait)).toBe(trait)
      expect(trait !== '').toBe(/[\p{L}\p{N}]/u.test(audience.normalize('NFKD')))
    }),
    { numRuns: rounds(200) },
  )
})
