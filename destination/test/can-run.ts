import { execFileSync } from 'node:child_process'

/** Whether a command works here. */
export function works(command: string, ...args: string[]): boolean {
  try {
    execFileSync(command, args, { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
}

/** Whether a command works here. If it does not, the run says what it leaves out. */
export function canRun(command: string, ...args: string[]): boolean {
  if (works(command, ...args)) return true
  console.log(`Left out: what needs \`${command}\`, which does not work here.`)
  return false
}

/** Whether small disks can be mounted. If they can't, the run says what it leaves out. */
export function canMount(): boolean {
  return canRun('mount', '-t', 'tmpfs', 'none', '/mnt') && works('umount', '/mnt')
}
