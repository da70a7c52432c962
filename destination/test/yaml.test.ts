// Every YAML file of the repository, and every YAML block of the documents, is what its readers expect.
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { parseAllDocuments, parseDocument } from 'yaml'

const ROOT = join(import.meta.dirname, '../..')
const read = (path: string) => readFileSync(join(ROOT, path), 'utf8')
const list = (...patterns: string[]) =>
  execFileSync('git', ['ls-files', ...patterns], { cwd: ROOT, encoding: 'utf8' })
    .trim()
    .split('\n')

const files = list('*.yaml', '*.yml').map((path) => [path, read(path)])
const blocks = list('*.md').flatMap((path) =>
  Array.from(read(path).matchAll(/^```ya?ml\n([^]*?)^```/gm), ([, text = '']) => [path, text]),
)

test.each([...files, ...blocks])('%s has no errors in its YAML', (_path, text = '') => {
  const problems = parseAllDocuments(text).flatMap(({ errors, warnings }) => [
    ...errors,
    ...warnings,
  ])
  expect(problems).toEqual([])
})

type Fields = Record<string, unknown>

interface Service extends Fields {
  healthcheck?: { test?: unknown }
}

function servicesIn(text: string): Record<string, Service> {
  const document = parseDocument(text, { merge: true }).toJS() as { services: object }
  return document.services as Record<string, Service>
}

describe.each(files.filter(([path = '']) => path.includes('compose')))('%s', (_path, text = '') => {
  test('has only texts in its commands, ports and volumes, as Compose demands', () => {
    const services = Object.values(servicesIn(text))
    expect(services.length).toBeGreaterThan(0)
    for (const { command, entrypoint, ports, volumes, healthcheck } of services) {
      const texts = [command, entrypoint, ports, volumes, healthcheck?.test].flat()
      expect(texts.filter((item) => item !== undefined && typeof item !== 'string')).toEqual([])
    }
  })
})

describe('a process has the rights and the time to stop that docs/operating.md names', () => {
  test('with Compose', () => {
    const { destination } = servicesIn(read('destination/compose.yaml'))
    expect(destination).toMatchObject({
      ...{ read_only: true, cap_drop: ['ALL'], stop_grace_period: '12s' },
      volumes: expect.arrayContaining(['data:/var/lib/hookline']) as unknown,
    })
  })

  test('with PostgreSQL: one collector, two workers', () => {
    const { collector, worker } = servicesIn(read('destination/compose.postgres.yaml'))
    const command = (role: string) => expect.arrayContaining(['--role', role]) as unknown
    const stop_grace_period = '12s'
    expect(collector).toMatchObject({ command: command('collector'), stop_grace_period })
    expect(collector).not.toHaveProperty('deploy')
    const deploy = { replicas: 2 }
    expect(worker).toMatchObject({ command: command('worker'), stop_grace_period, deploy })
  })

  test('with systemd', () => {
    const lines = read('destination/hookline-destination.service').split('\n')
    expect(lines).toEqual(
      expect.arrayContaining([
        ...['DynamicUser=yes', 'StateDirectory=hookline', 'WorkingDirectory=/var/lib/hookline'],
        ...['CapabilityBoundingSet=', 'TimeoutStopSec=12', 'LimitNOFILE=65536'],
        'RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX AF_NETLINK',
      ]),
    )
  })

  test('with Kubernetes', () => {
    for (const path of ['sqlite', 'postgres']) {
      const text = read(`examples/kubernetes/${path}.yaml`)
      const times = text.matchAll(/terminationGracePeriodSeconds: (\d+)/g)
      const seconds = Array.from(times, ([, value]) => Number(value))
      expect(seconds).not.toEqual([])
      expect(Math.min(...seconds)).toBeGreaterThanOrEqual(12)
    }
  })

  test('with Docker', () => {
    const text = read('destination/Dockerfile')
    const last = text.slice(text.lastIndexOf('\nFROM '))
    expect(last).toMatch(/^\nFROM node:24-/)
    expect(last).toMatch(/^USER node$/m)
    expect(last).toMatch(/^VOLUME \/var\/lib\/hookline$/m)
  })
})
