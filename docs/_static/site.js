// Frames with runs follow the theme that the reader has chosen for the site, and are as high as what they show. Where a
// frame may not be reached, as in pages that were opened as files, the style sheet gives it a theme and a height.
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
  const fit = frame => {
    try {
      const page = frame.contentDocument;
      const views = page.getElementById('nki-lab');
      new ResizeObserver(() => {
        frame.style.height = `${Math.max(400, Math.ceil(views.getBoundingClientRect().height))}px`;
      }).observe(views);
    } catch {
      // another origin, or nothing there yet
    }
  };
  const frames = () => document.querySelectorAll('figure.run iframe');
  addEventListener('DOMContentLoaded', () => {
    for (const frame of frames()) {
      follow(frame);
      frame.addEventListener('load', () => {
        follow(frame);
        fit(frame);
      });
    }
    new MutationObserver(() => frames().forEach(follow)).observe(document.body, {
      attributes: true,
      attributeFilter: ['data-theme'],
    });
  });
})();
