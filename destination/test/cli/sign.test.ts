// @module-tag long
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { signWebhook } from 'hookline/webhook'
import { describe, test } from 'vitest'
import { folderWith, run } from './process.js'

/** A body that is another text after it was parsed and stringified. */
const BODY = '{ "type": "track", "userId": "u1" }\n'

const webhooks = [{ url: 'https://a.example.com/' }]

function folderOf(...secrets: string[]): string {
  const folder = folderWith({
    sources: [{ name: 'web', writeKey: 'k' }],
    destinations: secrets.map((sharedSecret, index) => ({
      name: `d${index + 1}`,
      sources: ['web'],
      sharedSecret,
      webhooks,
    })),
  })
  writeFileSync(join(folder, 'body.json'), BODY)
  return folder
}

describe.concurrent('sign and verify', () => {
  test('use the secret of the settings, and the bytes as they are in the file', async ({
    expect,
  }) => {
    const folder = folderOf('first')
    const signed = await run(['sign', 'body.json'], { folder })
    const hex = signWebhook('first', BODY)
    expect(signed).toEqual({ code: 0, stdout: `${hex}\n`, stderr: '' })
    const verified = await run(['verify', 'body.json', '--signature', hex], { folder })
    expect(verified).toEqual({
      code: 0,
      stdout: `The signature is right: checked with the secret of d1 in hookline.config.json, over ${BODY.length} bytes.\n`,
      stderr: '',
    })
    expect(readFileSync(join(folder, 'body.json'), 'utf8')).toBe(BODY)
  })

  test('say that the settings have only secrets of Standard Webhooks', async ({ expect }) => {
    const webhookSecret = `whsec_${Buffer.alloc(24, 1).toString('base64')}`
    const folder = folderWith({
      sources: [{ name: 'web', writeKey: 'k' }],
      destinations: [{ name: 'd1', sources: ['web'], webhookSecret, webhooks }],
    })
    writeFileSync(join(folder, 'body.json'), BODY)
    expect(await run(['sign', 'body.json'], { folder })).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(
        /^There is no secret\. hookline\.config\.json has only webhookSecret, for Standard Webhooks\./,
      ) as string,
    })
  })

  test('a wrong signature is 1, with the reason', async ({ expect }) => {
    const folder = folderOf('first')
    const args = ['verify', 'body.json', '--secret', 'other', '--signature']
    const wrong = await run([...args, signWebhook('first', BODY)], { folder })
    expect(wrong).toMatchObject({ code: 1, stdout: '' })
    expect(wrong.stderr).toMatch(
      /^The signature is WRONG: checked with --secret, over 36 bytes\.\n/,
    )
    expect(wrong.stderr).toContain("Check that the secret is the destination's sharedSecret")
    const json = await run([...args, 'abc', '--json'], { folder })
    expect(json).toMatchObject({ code: 1, stderr: '' })
    expect(JSON.parse(json.stdout)).toMatchObject({ ok: false, signature: 'wrong', bytes: 36 })
  })

  test('an empty body is wrong, and named', async ({ expect }) => {
    const folder = folderOf('first')
    writeFileSync(join(folder, 'body.json'), '')
    const args = ['verify', 'body.json', '--signature', signWebhook('first', '')]
    const { code, stderr } = await run(args, { folder })
    expect(code).toBe(1)
    expect(stderr).toContain('The body is empty, and the destination never sends an empty one.')
  })

  test('sign asks which secret if there are several, and verify accepts each', async ({
    expect,
  }) => {
    const folder = folderOf('first', 'second')
    expect(await run(['sign', 'body.json'], { folder })).toEqual({
      code: 2,
      stdout: '',
      stderr:
        'There are several secrets: the secret of d1, d2 in hookline.config.json. Choose one with --destination or --secret.\n',
    })
    const hex = signWebhook('second', BODY)
    const second = await run(['sign', 'body.json', '-d', 'd2', '--json'], { folder })
    expect(JSON.parse(second.stdout)).toEqual({ signature: hex, bytes: 36 })
    expect(await run(['verify', 'body.json', '--signature', hex], { folder })).toMatchObject({
      code: 0,
    })
    expect(await run(['sign', 'body.json', '-d', 'd3'], { folder })).toMatchObject({
      code: 2,
      stderr: 'The settings have no destination "d3". They have: d1, d2.\n',
    })
  })
})
