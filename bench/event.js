// The event that every subject sends: about 530 bytes of JSON on the wire, built for each call
// as an application builds it, and numbered so that the collector can tell lost from duplicated.

const WORDS = ['organic', 'roasted', 'single', 'origin', 'washed', 'natural', 'reserve', 'espresso']
const CURRENCIES = ['EUR', 'USD', 'GBP']

const word = (number) => WORDS[number % WORDS.length]

/**
 * @param {number} seq number of the event in its run, from 0
 * @returns {{ userId: string, event: string, properties: Record<string, unknown> }}
 */
export function buildEvent(seq) {
  const product = (seq * 7919) % 100_000
  return {
    userId: `user_${100_000 + (seq % 50_000)}`,
    event: 'Order Completed',
    properties: {
      seq,
      orderId: `ord_${(1_000_000_000 + seq * 31).toString(36)}`,
      total: (product % 20_000) / 100,
      currency: CURRENCIES[seq % CURRENCIES.length],
      quantity: 1 + (seq % 5),
      returning: seq % 3 === 0,
      skus: [`sku-${product}`, `sku-${product + 1}`, `sku-${product + 2}`],
      url: `https://shop.example.com/checkout/complete?order=${seq}&campaign=${word(seq)}`,
      title: `${word(seq)} ${word(seq + 3)} coffee, ${250 + (seq % 4) * 250} g, ground for filter, ships today`,
    },
  }
}
