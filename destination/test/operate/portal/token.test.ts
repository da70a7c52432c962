import { randomInt } from 'node:crypto'
import { SignJWT, UnsecuredJWT } from 'jose'
import { describe, expect, test } from 'vitest'
import { readGuest as readGuestAt, signGuest } from '../../../src/operate/portal/token.js'

const TOKEN = 'admin-token-0123456789'
const readGuest = (adminToken: string, token: string, now = Date.now()) =>
  readGuestAt(adminToken, token, now)
const soon = () => (Math.floor(Date.now() / 1_000) + 60) * 1_000

describe('the token of a link', () => {
  test.each([null, 'ada@example.com', 'Ádá "the first"'])(
    'says who has it, for whom it was made: %j',
    async (by) => {
      const guest = { tenant: 'acme', by, expiresAt: soon() }
      expect(await readGuest(TOKEN, await signGuest(TOKEN, guest))).toEqual(guest)
    },
  )

  test('is expired in the second in which it ends, and not before', async () => {
    const of = async (expiresAt: number) =>
      readGuest(TOKEN, await signGuest(TOKEN, { tenant: 'acme', by: null, expiresAt }))
    const now = Math.floor(Date.now() / 1_000) * 1_000
    expect(await of(now)).toBe('expired')
    expect(await of(now - 86_400_000)).toBe('expired')
    expect(await of(now + 60_000)).toMatchObject({ tenant: 'acme' })
  })

  test('expires by the clock of the store, and not by that of the process', async () => {
    const expiresAt = soon()
    const token = await signGuest(TOKEN, { tenant: 'acme', by: null, expiresAt })
    expect(await readGuest(TOKEN, token, expiresAt - 1_000)).toMatchObject({ tenant: 'acme' })
    expect(await readGuest(TOKEN, token, expiresAt)).toBe('expired')
    expect(await readGuest(TOKEN, token, expiresAt - 7_200_000)).toMatchObject({ tenant: 'acme' })
  })

  test('is worth nothing after the admin token has changed, nor is it expired then', async () => {
    for (const expiresAt of [soon(), 0]) {
      const token = await signGuest(TOKEN, { tenant: 'acme', by: null, expiresAt })
      expect(await readGuest(`${TOKEN}x`, token)).toBeUndefined()
    }
  })

  test('is worth nothing after any change of it', async () => {
    const token = await signGuest(TOKEN, { tenant: 'acme', by: null, expiresAt: soon() })
    for (let i = 0; i < 200; i++) {
      const at = randomInt(token.length)
      // The last two bits of the last character of a signature have no meaning.
      if (at === token.length - 1) continue
      const other = token[at] === 'A' ? 'B' : 'A'
      const changed = token.slice(0, at) + other + token.slice(at + 1)
      expect(await readGuest(TOKEN, changed), changed).toBeUndefined()
    }
  })

  const claims = (changes: object = {}) => ({
    ...{ sub: 'acme', aud: 'hookline-portal', iat: 0, exp: soon() / 1_000 },
    ...changes,
  })

  test('is not one without a signature, or signed with the admin token itself, or by other means', async () => {
    const secret = new TextEncoder().encode(TOKEN)
    const header = { alg: 'HS256', typ: 'JWT' }
    const others = [
      new UnsecuredJWT(claims()).encode(),
      await new SignJWT(claims()).setProtectedHeader(header).sign(secret),
      ...['', '.', '..', 'a.b.c', TOKEN],
    ]
    for (const other of others) expect(await readGuest(TOKEN, other), other).toBeUndefined()
  })
})
