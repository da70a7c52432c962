// What the clients of a round do. A call is sent again until it is answered 200, as the libraries of clients do.
import { setTimeout as sleep } from 'node:timers/promises'
import { clock } from '../random/clock.js'
import { ADMIN_TOKEN } from './settings.js'
import { SOURCES, USERS } from './plan.js'

const ANSWER_MS = 10_000
const AGAIN_MS = 300
/** Nothing keeps a collector from answering for so long. */
const GIVE_UP_MS = 90_000
const MOST_AT_ONCE = 40
const MOST_IN_BATCH = 20
/** The share of batches that a client sends again although they were answered, as after a lost answer. */
const REPEATED = 0.03
/** Some calls are large. */
const PADDING = [0, 0, 0, 100, 2_000]

const random = (below) => Math.floor(Math.random() * below)

export class Load {
  #numbers = 0
  #underWay = new Set()
  #isOver = false
  #administered = Promise.resolve()
  /** One for each batch: its calls, and when it was sent first and answered 200 last. */
  batches = []
  /** One for each deletion, with the same times. */
  deletions = []
  /** The last list of each audience that was answered 200. */
  audiences = new Map()
  refused = 0

  /** @param {{ plan: object, service: object, fault: Function }} parts */
  constructor(parts) {
    this.parts = parts
  }

  /** Sends batches at the plan's rate until the round is over. */
  async run() {
    const { batchEveryMs } = this.parts.plan
    while (!this.#isOver) {
      if (this.#underWay.size < MOST_AT_ONCE) this.send(1 + random(MOST_IN_BATCH))
      await sleep(random(2 * batchEveryMs))
    }
  }

  end() {
    this.#isOver = true
  }

  /** An act of the administrator, after those before. It does not keep the other acts of the round. */
  administer(act) {
    this.#administered = this.#administered.then(act)
  }

  /** Waits until every call is answered. */
  async answered() {
    await this.#administered
    while (this.#underWay.size > 0) await Promise.all(this.#underWay)
  }

  /** @returns when the batch is answered 200 */
  send(count, { isBulk = Math.random() < 0.1, isCalm = false } = {}) {
    const { poison, seed } = this.parts.plan
    const calls = Array.from({ length: count }, () => {
      const isPoison = !isCalm && Math.random() < poison
      return callOf(`r${seed}.${(this.#numbers += 1)}`, isPoison)
    })
    const source = SOURCES[random(SOURCES.length)]
    const batch = { calls, source, isBulk, isCalm, sentAt: clock(), answeredAt: Infinity }
    const sending = this.#sendBatch(batch).finally(() => this.#underWay.delete(sending))
    this.#underWay.add(sending)
    return sending
  }

  async #sendBatch(batch) {
    const body = JSON.stringify({ batch: batch.calls })
    const headers = {
      authorization: `Basic ${btoa(`wk_${batch.source}:`)}`,
      ...(batch.isBulk && { 'x-lane': 'bulk' }),
    }
    const request = { method: 'POST', headers, body }
    const tried = () => (batch.triedAt = clock())
    const answer = await this.#untilAnswered('/v1/batch', request, tried)
    if (!answer) return
    if (answer.rejected)
      this.parts.fault('answers', `calls were rejected: ${JSON.stringify(answer)}`)
    batch.answeredAt = clock()
    // When it was stored first is known only up to this time.
    batch.storedAt = batch.answeredAt
    if (Math.random() < REPEATED) {
      await this.#untilAnswered('/v1/batch', request)
      batch.answeredAt = clock()
    }
    this.batches.push(batch)
  }

  async #untilAnswered(path, request, tried = () => undefined) {
    const startedAt = clock()
    const { service } = this.parts
    while (clock() - startedAt < GIVE_UP_MS + service.starvedMs(startedAt, clock())) {
      const { collectors } = service
      tried()
      try {
        const response = await fetch(collectors[random(collectors.length)] + path, {
          ...request,
          signal: AbortSignal.timeout(ANSWER_MS),
        })
        const answer = await response.json()
        if (response.status === 200) return answer
        this.refused += 1
        if (response.status < 500 && response.status !== 409)
          return this.#failed(path, `${response.status}: ${JSON.stringify(answer)}`)
      } catch {
        // Nobody listens, or the process was killed before it answered.
      }
      await sleep(random(AGAIN_MS))
    }
    return this.#failed(path, `no 200 in ${GIVE_UP_MS} ms`)
  }

  #failed(path, answer) {
    this.parts.fault('answers', `${path} is answered ${answer}`)
    return undefined
  }

  async putAudience(audience, members) {
    const users = members.map((member) => JSON.stringify(`member-${member}`))
    const body = [...users, JSON.stringify({ end: users.length })].join('\n')
    const answer = await this.#untilAnswered(`/v1/audiences/${audience}`, {
      ...{ method: 'PUT', body },
      headers: { ...AUTHORIZED, 'content-type': 'application/x-ndjson' },
    })
    if (answer) this.audiences.set(audience, new Set(members))
  }

  async delete(user) {
    const deletion = { user: `user-${user}`, sentAt: clock(), answeredAt: Infinity }
    this.deletions.push(deletion)
    const body = JSON.stringify({ userId: deletion.user })
    await this.#untilAnswered('/v1/deletions', { method: 'POST', headers: AUTHORIZED, body })
    deletion.answeredAt = clock()
  }

  replay() {
    const body = JSON.stringify({ all: true })
    return this.#untilAnswered('/v1/admin/replay', { method: 'POST', headers: AUTHORIZED, body })
  }
}

const AUTHORIZED = { authorization: `Bearer ${ADMIN_TOKEN}` }

function callOf(messageId, isPoison) {
  const padding = 'é'.repeat(PADDING[random(PADDING.length)])
  return {
    ...{ type: 'track', userId: `user-${random(USERS)}`, messageId },
    event: isPoison ? 'poison' : 'Order Completed',
    properties: { padding, total: 4.5 },
  }
}
