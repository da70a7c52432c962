import tseslint from 'typescript-eslint'

export default tseslint.config(
  { ignores: ['**/build/', '**/dist/', 'docs/', 'bench/node_modules/', 'coverage/'] },
  ...tseslint.configs.strictTypeChecked,
  ...tseslint.configs.stylisticTypeChecked,
  {
    languageOptions: { parserOptions: { projectService: true } },
    rules: {
      // Numbers and booleans read well in messages; objects do not, and stay refused.
      '@typescript-eslint/restrict-template-expressions': [
        'error',
        { allowNumber: true, allowBoolean: true },
      ],
      // An empty string is often as good as none.
      '@typescript-eslint/prefer-nullish-coalescing': [
        'error',
        { ignorePrimitives: { string: true } },
      ],
      // It asks for the `!` that no-non-null-assertion forbids.
      '@typescript-eslint/non-nullable-type-assertion-style': 'off',
    },
  },
  {
    files: ['src/**', 'destination/src/**', 'destination/page/**'],
    rules: {
      // TypeScript does not look for wrong names of fields through a spread.
      'no-restricted-syntax': [
        'error',
        {
          selector: 'ObjectExpression > SpreadElement > ObjectExpression',
          message: 'List the fields.',
        },
      ],
    },
  },
  {
    files: ['src/**'],
    rules: {
      // Fake timers of an application's tests do not reach those of runtime.ts.
      'no-restricted-globals': [
        'error',
        ...['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval', 'setImmediate'],
        ...['clearImmediate', 'performance'],
      ],
    },
  },
  {
    files: ['examples/nest.ts'],
    rules: {
      '@typescript-eslint/no-extraneous-class': ['error', { allowWithDecorator: true }],
      // Nest declares its options as classes, and everybody passes them as objects.
      '@typescript-eslint/no-unsafe-class-instance-assignment': 'off',
    },
  },
  { files: ['**/*.{js,cjs}', 'bench/**'], extends: [tseslint.configs.disableTypeChecked] },
)
