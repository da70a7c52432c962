import { useRef } from 'preact/hooks'
import type { Problem } from './api.js'
import { FilterPreviewCard } from './filter-preview.js'
import { AreaField, Checks, focusSoon, Group, Wrong } from './form.js'
import { CALL_TYPES } from '../src/model/call.js'
import { NO_FILTER, type FilterForm } from './setting-form.js'

interface FiltersProps {
  /** The sources of the destination. */
  sources: readonly string[]
  filters: readonly FilterForm[]
  onChange: (filters: readonly FilterForm[]) => void
  report: (part: string, problems: readonly Problem[]) => void
}

/** The filters of a destination, and what they would have done with the latest calls. */
export function FilterFields({ sources, filters, onChange, report }: FiltersProps) {
  const heading = useRef<HTMLHeadingElement>(null)
  return (
    <section aria-labelledby="filters">
      <h3 id="filters" ref={heading} tabIndex={-1}>
        Filters
      </h3>
      {filters.length === 0 && (
        <p class="hint">Without filters, it gets all calls of its sources.</p>
      )}
      {filters.length > 1 && <p class="hint">A call has to pass each of them.</p>}
      <Wrong path="filters" />
      {filters.map((filter, index) => (
        <Filter
          filter={filter}
          index={index}
          title={filters.length === 1 ? 'Filter' : `Filter ${index + 1}`}
          sources={sources}
          onChange={(changes) => {
            onChange(filters.with(index, { ...filter, ...changes }))
          }}
          onRemove={() => {
            onChange(filters.toSpliced(index, 1))
            focusSoon(() => heading.current)
          }}
          key={index}
        />
      ))}
      <button
        type="button"
        onClick={() => {
          onChange([...filters, NO_FILTER])
        }}
      >
        {filters.length === 0 ? 'Add a filter' : 'Add another filter'}
      </button>
      {filters.length > 0 && (
        <FilterPreviewCard sources={sources} filters={filters} report={report} />
      )}
    </section>
  )
}

interface FilterProps {
  filter: FilterForm
  index: number
  title: string
  sources: readonly string[]
  onChange: (changes: Partial<FilterForm>) => void
  onRemove: () => void
}

function Filter({ filter, index, title, sources, onChange, onRemove }: FilterProps) {
  const path = `filters[${index}]`
  // A source that the destination no longer has stays visible until it is removed from the filter.
  const offered = [...new Set([...sources, ...filter.sources])]
  return (
    <Group path={path} legend={title}>
      {offered.length > 1 && (
        <Checks
          path={`${path}.sources`}
          label="Only for calls of"
          hint="None chosen: for the calls of all its sources."
          all={offered}
          chosen={filter.sources}
          onChange={(chosen) => {
            onChange({ sources: chosen })
          }}
        />
      )}
      <Checks
        path={`${path}.types`}
        label="Types that pass"
        hint="None chosen: all types pass."
        all={CALL_TYPES}
        chosen={filter.types}
        onChange={(types) => {
          onChange({ types })
        }}
      />
      <div class="columns">
        <AreaField
          path={`${path}.events.allow`}
          label="Events that pass"
          hint="One a line; * stands for any text. Empty: all pass."
          value={filter.allow}
          onChange={(allow) => {
            onChange({ allow })
          }}
        />
        <AreaField
          path={`${path}.events.deny`}
          label="Events that are stopped"
          hint="One a line. They beat those that pass."
          value={filter.deny}
          onChange={(deny) => {
            onChange({ deny })
          }}
        />
      </div>
      <AreaField
        path={`${path}.where`}
        label="Condition, as JSON"
        hint={
          <>
            Such as <code>{'{ "properties.total": { "$gte": 100 } }'}</code>. Empty: no condition.
          </>
        }
        value={filter.where}
        onChange={(where) => {
          onChange({ where })
        }}
      />
      <div class="actions">
        <button type="button" class="small" onClick={onRemove}>
          Remove {title.toLowerCase()}
        </button>
      </div>
    </Group>
  )
}
