/** What Node reports of a process, as far as it is used here. */
interface Report {
  userLimits?: { open_files?: { soft: number | string } }
}

/**
 * Explains an error that comes of a limit of open files, such as while the command is loaded; `undefined` for others. It opens no
 * file itself: that would fail too.
 */
export function explainOpenFiles(error: unknown): string | undefined {
  const { code } = error as NodeJS.ErrnoException
  if (code !== 'EMFILE' && code !== 'ENFILE') return undefined
  const { userLimits } = process.report.getReport() as Report
  const limit = userLimits?.open_files?.soft ?? 'unknown'
  return (
    `Too many files are open (${code}): this process may open ${limit} at once, which is too few. Set the limit to 65536: with ` +
    '`ulimit -n 65536` in the shell that starts it, LimitNOFILE=65536 in its systemd unit, or --ulimit nofile=65536 of docker run.'
  )
}
