'use strict';
// The server is asked for the page anew, and what it shows is replaced; a file can only be loaded anew.
(() => {
  const main = () => document.getElementById('watch');
  const again = () => setTimeout(look, 1000 * Number(main().dataset.every));
  async function look() {
    if (document.hidden) return again();
    if (!location.protocol.startsWith('http')) return location.reload();
    try {
      const answer = await fetch(location.href, { cache: 'no-store' });
      const page = new DOMParser().parseFromString(await answer.text(), 'text/html');
      main().replaceWith(page.getElementById('watch'));
    } catch {
      document.getElementById('lost').hidden = false;
    }
    if (!('over' in main().dataset)) again();
  }
  if (!('over' in main().dataset)) again();
})();
