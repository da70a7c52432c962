import type { Health } from '../src/model/health.js'
import { healthInWords } from './words.js'

/** The state of a destination or an endpoint. */
export function HealthPill(props: { health: Health; failedShare: number | null }) {
  return (
    <span class={`pill health-${props.health}`}>
      {healthInWords(props.health, props.failedShare)}
    </span>
  )
}
