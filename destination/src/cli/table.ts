/** Lays out rows as a table: each cell but the last of a row is padded to the width of its column. */
export function table(rows: readonly (readonly string[])[]): string[] {
  const columns = createColumns([])
  for (const row of rows) columns(row)
  return rows.map(columns)
}

/** In characters. A longer cell moves its own line only. */
const MAX_WIDTH = 40

/**
 * Lays out lines that are printed one by one. A column is as wide as its widest cell so far, so that lines stay aligned
 * without the knowledge of those that come later.
 *
 * @param widths - The widths to start with.
 */
export function createColumns(widths: readonly number[]): (cells: readonly string[]) => string {
  const widest = [...widths]
  return (cells) =>
    cells
      .map((cell, column) => {
        const width = Math.max(widest[column] ?? 0, Math.min(cell.length, MAX_WIDTH))
        widest[column] = width
        return cell.padEnd(width)
      })
      .join('  ')
      .trimEnd()
}
