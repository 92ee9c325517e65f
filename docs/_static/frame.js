// The page of a run within a frame: tells the page around it how high it is, and takes the theme that this one has. Messages,
// because pages that were opened as files may not look into each other.
(() => {
  if (parent === window) return;
  const page = document.documentElement;
  addEventListener('message', event => {
    if (event.source !== parent || typeof event.data?.nkiTheme !== 'string') return;
    const chosen = ['light', 'dark'].includes(event.data.nkiTheme);
    if (chosen) page.setAttribute('theme', event.data.nkiTheme);
    else page.removeAttribute('theme');
    page.style.colorScheme = chosen ? event.data.nkiTheme : '';
  });
  const views = document.getElementById('nki-lab');
  new ResizeObserver(() => {
    parent.postMessage({ nkiHeight: Math.ceil(views.getBoundingClientRect().height) }, '*');
  }).observe(views);
})();
