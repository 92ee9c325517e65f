import js from '@eslint/js';
import { defineConfig } from 'eslint/config';
import tseslint from 'typescript-eslint';

export default defineConfig(
  { ignores: ['dev/', 'node_modules/'] },
  js.configs.recommended,
  {
    files: ['**/*.ts'],
    extends: [tseslint.configs.strictTypeChecked, tseslint.configs.stylisticTypeChecked],
    languageOptions: { parserOptions: { projectService: true, tsconfigRootDir: import.meta.dirname } },
    rules: {
      // Numbers in texts are what a visualizer writes.
      '@typescript-eslint/restrict-template-expressions': ['error', { allowNumber: true }],
      // What an index gives may be missing although its type does not say so; then a default is not unnecessary.
      '@typescript-eslint/no-unnecessary-condition': 'off',
      '@typescript-eslint/no-non-null-assertion': 'off',
      // `arrow => void call()` is how handlers are written.
      '@typescript-eslint/no-confusing-void-expression': ['error', { ignoreArrowShorthand: true }],
      '@typescript-eslint/switch-exhaustiveness-check': 'error',
      eqeqeq: 'error',
      'no-console': 'error',
    },
  },
  {
    // User text enters the page as text nodes only.
    files: ['src/**/*.ts'],
    rules: {
      'no-restricted-properties': [
        'error',
        { property: 'innerHTML', message: 'text nodes only' },
        { property: 'outerHTML', message: 'text nodes only' },
        { property: 'insertAdjacentHTML', message: 'text nodes only' },
        { object: 'document', property: 'write', message: 'text nodes only' },
      ],
    },
  },
  {
    files: ['*.mjs', '*.js'],
    languageOptions: { globals: { process: 'readonly', Buffer: 'readonly', URL: 'readonly', console: 'readonly' } },
  },
);
