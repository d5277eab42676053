'use strict';
// Runs before the page is drawn, so that a remembered choice does not flash. Storage is closed in some frames.
(() => {
  const root = document.documentElement;
  root.classList.add('js');
  try {
    const theme = localStorage.getItem('trijoin-sql-theme');
    if (theme === 'light' || theme === 'dark') root.dataset.theme = theme;
  } catch { /* the choice lasts as long as the page */ }
})();
