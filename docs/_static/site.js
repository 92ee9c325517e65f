// Frames with runs are as high as what they show, and follow the theme that the reader has chosen for the site: frame.js
// tells the one, and is told the other.
(() => {
  const LEAST = 400; // pixels
  const frames = () => [...document.querySelectorAll('figure.run iframe')];
  const theme = frame => frame.contentWindow?.postMessage({ nkiTheme: document.body.dataset.theme ?? 'auto' }, '*');
  addEventListener('message', event => {
    const frame = frames().find(one => one.contentWindow === event.source);
    const height = event.data?.nkiHeight;
    if (frame === undefined || typeof height !== 'number') return;
    frame.style.height = `${Math.max(LEAST, height)}px`;
    theme(frame);
  });
  addEventListener('DOMContentLoaded', () => {
    new MutationObserver(() => frames().forEach(theme)).observe(document.body, {
      attributes: true,
      attributeFilter: ['data-theme'],
    });
  });
})();
