'use strict';
// Runs before the page is drawn, so that a remembered choice does not flash. Storage is closed in some frames.
(() => {
  const root = document.documentElement;
  const themes = ['system', 'light', 'dark'];
  const key = 'trijoin-sql-theme';
  root.classList.add('js');
  try {
    const theme = localStorage.getItem(key);
    if (theme === 'light' || theme === 'dark') root.dataset.theme = theme;
  } catch { /* the choice lasts as long as the page */ }

  document.addEventListener('DOMContentLoaded', () => {
    const button = document.getElementById('theme');

    function named() {
      const theme = root.dataset.theme ?? 'system';
      document.getElementById('theme-name').textContent = theme[0].toUpperCase() + theme.slice(1);
      button.setAttribute('aria-label', `Colours: ${theme}`);
    }

    button.addEventListener('click', () => {
      const theme = themes[(themes.indexOf(root.dataset.theme ?? 'system') + 1) % themes.length];
      if (theme === 'system') delete root.dataset.theme;
      else root.dataset.theme = theme;
      try {
        if (theme === 'system') localStorage.removeItem(key);
        else localStorage.setItem(key, theme);
      } catch { /* the choice lasts as long as the page */ }
      named();
    });
    named();
  });
})();
