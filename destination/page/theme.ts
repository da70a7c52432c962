import { signal } from '@preact/signals'

export type Theme = 'system' | 'light' | 'dark'

const KEY = 'hookline-theme'
const NEXT: Readonly<Record<Theme, Theme>> = { system: 'light', light: 'dark', dark: 'system' }

export const theme = signal<Theme>('system')

export function useStoredTheme(): void {
  const stored = localStorage.getItem(KEY)
  apply(stored === 'light' || stored === 'dark' ? stored : 'system')
}

export function switchTheme(): void {
  apply(NEXT[theme.value])
  localStorage.setItem(KEY, theme.value)
}

function apply(next: Theme): void {
  theme.value = next
  document.documentElement.dataset['theme'] = next
}
