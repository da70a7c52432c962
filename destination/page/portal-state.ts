import { signal } from '@preact/signals'
import { get } from './api.js'
import type { Overview, PortalOverview, PortalTenant } from '../src/model/answers.js'

/** The tenant whose page this is; `undefined` until it is known. */
export const tenant = signal<PortalTenant | undefined>(undefined)

/**
 * Reads the overview of the tenant in the form of the operator's, so that both pages share their views. What a tenant does not
 * see is empty, and its page does not show it.
 */
export async function readPortal(query: string, abort?: AbortSignal): Promise<Overview> {
  const { tenant: own, totals, ...rest } = await get<PortalOverview>(`/overview${query}`, abort)
  tenant.value = own
  return {
    ...rest,
    version: '',
    startedAt: rest.now,
    store: 'sqlite',
    role: '',
    retentionMs: 0,
    access: 'operator',
    formerDestinations: [],
    totals: { ...totals, callsPerSecond: 0 },
  }
}
