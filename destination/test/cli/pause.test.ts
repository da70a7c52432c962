import { describe, expect, test } from 'vitest'
import { ADMIN_TOKEN, destination, endpoint, post, settingsFor, start, track } from '../run.js'
import { runInside } from './inside.js'

async function withCrm() {
  const crm = await endpoint()
  const one = await start(settingsFor([destination([crm])]))
  const where = ['--url', one.adminUrl, '--token', ADMIN_TOKEN]
  return { crm, one, cli: (...args: string[]) => runInside([...args, ...where]) }
}

describe('pause and resume', () => {
  test('hold messages up, and let them go', async () => {
    const { crm, one, cli } = await withCrm()
    expect(await cli('pause', 'crm', '--reason', 'maintenance')).toEqual({
      code: 0,
      stdout: 'crm is paused. Its messages wait until you resume it.\n',
      stderr: '',
    })
    await post(one, [track('m1')])
    const { stdout } = await cli('trace', 'm1')
    expect(stdout.trimEnd().split('\n').at(-1)).toBe(
      '  The destination is paused, so no attempt is made. `resume` lifts the pause.',
    )
    expect(crm.received).toEqual([])
    expect(await cli('resume', 'crm')).toMatchObject({
      code: 0,
      stdout: 'crm is sent its messages again.\n',
    })
    await crm.has(1)
    expect(await cli('resume', 'crm')).toMatchObject({
      code: 0,
      stdout: 'crm was not paused.\n',
    })
  })

  test('are shown by status, with the reason', async () => {
    const { cli } = await withCrm()
    await cli('pause', 'crm', '--reason', 'a\u001b[31m reason')
    expect((await cli('pause', 'crm', '--reason', 'INC-204\u001b[31m')).stdout).toBe(
      'crm was paused already; the reason is changed. Its messages wait until you resume it.\n',
    )
    const { stdout } = await cli('status')
    expect(stdout).toMatch(/^crm \(paused\) +0 /m)
    expect(stdout).toMatch(/^crm is paused since \d{4}-\d\d-\d\d .*Z: INC-204\\u001b\[31m$/m)
  })

  test('print JSON, and need a reason and a destination of the settings', async () => {
    const { cli } = await withCrm()
    const { stdout } = await cli('pause', 'crm', '--reason', 'r', '--json')
    expect(JSON.parse(stdout)).toMatchObject({ destination: 'crm', paused: { reason: 'r' } })
    expect(JSON.parse((await cli('resume', 'crm', '--json')).stdout)).toEqual({
      destination: 'crm',
      paused: null,
      wasPaused: true,
    })
    expect(await cli('pause', 'crm')).toMatchObject({ code: 2 })
    expect(await cli('pause', 'crn', '--reason', 'r')).toMatchObject({
      code: 1,
      stderr: 'The settings have no destination "crn".\n',
    })
  })
})
