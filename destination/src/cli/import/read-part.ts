import { closeSync, fstatSync, openSync, readSync } from 'node:fs'

/** Reads so many bytes of a file from a place, or fewer if it ends before. */
export function readPart(file: string, place: number, bytes: number): Buffer {
  const descriptor = openSync(file, 'r')
  try {
    const left = Math.max(0, fstatSync(descriptor).size - place)
    const part = Buffer.alloc(Math.min(bytes, left))
    return part.subarray(0, readSync(descriptor, part, 0, part.length, place))
  } finally {
    closeSync(descriptor)
  }
}
