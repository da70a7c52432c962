import { hkdfSync } from 'node:crypto'

/** Who has opened a portal link. */
export interface Guest {
  tenant: string
  /** Whom the link was made for, in the words of who made it. */
  by: string | null
  /** In ms since the epoch. */
  expiresAt: number
}

/** A token for anything else, made with the same key, must not open the portal. */
const AUDIENCE = 'hookline-portal'

/** The only algorithm. The one that a token names must not choose how it is checked (RFC 8725, 3.1). */
const ALGORITHM = 'HS256'

/** Most operators never make a link: it is loaded for the first one. */
const jose = () => import('jose')

/** Makes the token of a portal link: a JWT (RFC 7519). */
export async function signGuest(
  adminToken: string,
  { tenant, by, expiresAt }: Guest,
): Promise<string> {
  const { SignJWT } = await jose()
  return new SignJWT(by === null ? {} : { by })
    .setProtectedHeader({ alg: ALGORITHM, typ: 'JWT' })
    .setSubject(tenant)
    .setAudience(AUDIENCE)
    .setIssuedAt()
    .setExpirationTime(Math.floor(expiresAt / 1_000))
    .sign(keyOf(adminToken))
}

/**
 * @param now - The time, in ms since the epoch.
 * @returns who has a token, `expired` if its time is over, and `undefined` if it was never valid here.
 */
export async function readGuest(
  adminToken: string,
  token: string,
  now: number,
): Promise<Guest | 'expired' | undefined> {
  const { errors, jwtVerify } = await jose()
  try {
    const { payload } = await jwtVerify(token, keyOf(adminToken), {
      algorithms: [ALGORITHM],
      audience: AUDIENCE,
      currentDate: new Date(now),
      typ: 'JWT',
      requiredClaims: ['sub', 'iat', 'exp'],
    })
    const { sub = '', exp = 0, by } = payload
    return { tenant: sub, by: typeof by === 'string' ? by : null, expiresAt: exp * 1_000 }
  } catch (error) {
    return error instanceof errors.JWTExpired ? 'expired' : undefined
  }
}

let latest: { adminToken: string; key: Uint8Array } | undefined

/** A key of its own for links (RFC 5869). It follows from the admin token, so that a new admin token ends all links. */
function keyOf(adminToken: string): Uint8Array {
  if (latest?.adminToken !== adminToken) {
    const key = new Uint8Array(hkdfSync('sha256', adminToken, '', 'hookline portal link', 32))
    latest = { adminToken, key }
  }
  return latest.key
}
