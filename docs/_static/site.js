// Frames with runs follow the theme that the reader has chosen for the site. Where a frame may not be reached, as in pages
// that were opened as files, the style sheet's color-scheme tells it.
(() => {
  const theme = () => document.body.dataset.theme;
  const follow = frame => {
    try {
      const root = frame.contentDocument.documentElement;
      if (theme() === 'light' || theme() === 'dark') {
        root.setAttribute('theme', theme());
        root.style.colorScheme = theme();
      } else {
        root.removeAttribute('theme');
        root.style.colorScheme = '';
      }
    } catch {
      // another origin
    }
  };
  const frames = () => document.querySelectorAll('figure.run iframe');
  addEventListener('DOMContentLoaded', () => {
    for (const frame of frames()) {
      follow(frame);
      frame.addEventListener('load', () => follow(frame));
    }
    new MutationObserver(() => frames().forEach(follow)).observe(document.body, {
      attributes: true,
      attributeFilter: ['data-theme'],
    });
  });
})();
