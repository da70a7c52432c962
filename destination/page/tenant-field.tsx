import { useSignal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import { TextField } from './form.js'
import { list } from './setting-kinds.js'

/** So many tenants are suggested. */
const SUGGESTED = 50

interface TenantProps {
  value: string
  onChange: (value: string) => void
}

/** The tenant of a source or destination. Without tenants, there is nothing to choose. */
export function TenantField({ value, onChange }: TenantProps) {
  const names = useSignal<readonly string[]>([])
  useEffect(() => {
    const controller = new AbortController()
    void list('tenant', { q: value, limit: SUGGESTED }, controller.signal).then(
      ({ items }) => {
        if (items.length > 0) names.value = items.map(({ name }) => name)
      },
      () => undefined,
    )
    return () => {
      controller.abort()
    }
  }, [value])
  if (names.value.length === 0 && value === '') return null
  return (
    <TextField
      path="tenant"
      label="Tenant"
      hint="Empty: it is your own, the operator’s."
      options={names.value}
      {...{ value, onChange }}
    />
  )
}
