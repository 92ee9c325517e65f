/** Makes of a stand-alone page of a run one that a webview may show. */

const POLICY = /<meta http-equiv="Content-Security-Policy" content="[^"]*">/;
const SCRIPT = /<script>/g;

/**
 * Return a page that runs nothing but its own scripts, by a number used once.
 *
 * Throws an error where the page has no policy of its own to be replaced.
 */
export function framed(page: string, nonce: string): string {
  if (!POLICY.test(page)) throw new Error('the page has no content security policy; write it again with this nki_lab');
  const policy = `default-src 'none'; script-src 'nonce-${nonce}'; style-src 'unsafe-inline'; img-src data: blob:`;
  // Functions, since a `$` in a replacement would mean something. The views' script starts the only bare element.
  return page
    .replace(POLICY, () => `<meta http-equiv="Content-Security-Policy" content="${policy}">`)
    .replace(SCRIPT, () => `<script nonce="${nonce}">`);
}
