import { signal } from '@preact/signals'
import { load, store } from './portal.js'

export type Theme = 'system' | 'light' | 'dark'

const KEY = 'hookline-theme'
const NEXT: Readonly<Record<Theme, Theme>> = { system: 'light', light: 'dark', dark: 'system' }

export const theme = signal<Theme>('system')

export function useStoredTheme(): void {
  const stored = load('localStorage', KEY)
  apply(stored === 'light' || stored === 'dark' ? stored : 'system')
}

export function switchTheme(): void {
  apply(NEXT[theme.value])
  store('localStorage', KEY, theme.value)
}

function apply(next: Theme): void {
  theme.value = next
  document.documentElement.dataset['theme'] = next
}
