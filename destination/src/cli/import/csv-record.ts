/**
 * Reads the cells of one CSV record (RFC 4180), line by line. A quoted cell may have line breaks. A quote within a cell
 * without quotes is part of the cell, because programs write that although the RFC forbids it.
 */
export class CsvRecord {
  /** The cells that are complete. */
  cells: string[] = []
  #open: string | undefined

  /** Whether a quote is open: the record continues in the next line. */
  get isOpen(): boolean {
    return this.#open !== undefined
  }

  /** The characters of the record. */
  get length(): number {
    return this.cells.reduce((sum, cell) => sum + cell.length, this.#open?.length ?? 0)
  }

  /**
   * Reads a line.
   *
   * @param text - The line without its line break.
   * @param lineBreak - The line break. It is part of the cell if the quote stays open.
   */
  add(text: string, lineBreak: string): void {
    if (this.#open === undefined && !text.includes('"')) {
      this.cells = text.split(',')
      return
    }
    for (let at = 0; at <= text.length;) at = this.#readCell(text, at, lineBreak)
  }

  /** @returns the position after the cell and its comma. */
  #readCell(text: string, at: number, lineBreak: string): number {
    const isContinued = this.#open !== undefined
    if (!isContinued && text[at] !== '"') return this.#endCell(text, at, '')
    const start = isContinued ? at : at + 1
    const close = closingQuote(text, start)
    const read = (this.#open ?? '') + text.slice(start, close).replaceAll('""', '"')
    if (close === undefined) {
      this.#open = read + lineBreak
      return Infinity
    }
    this.#open = undefined
    const isClosed = close + 1 === text.length || text[close + 1] === ','
    return this.#endCell(text, close + 1, isClosed ? read : `"${read}"`)
  }

  #endCell(text: string, from: number, read: string): number {
    const comma = text.indexOf(',', from)
    const end = comma < 0 ? text.length : comma
    this.cells.push(read + text.slice(from, end))
    return comma < 0 ? Infinity : comma + 1
  }
}

/** The position of the quote that ends a cell; `undefined` if it is not in this line. Two quotes stand for one. */
function closingQuote(text: string, from: number): number | undefined {
  for (let at = text.indexOf('"', from); at >= 0; at = text.indexOf('"', at + 2)) {
    if (text[at + 1] !== '"') return at
  }
  return undefined
}
