// Colours, keys, and the links between the query, the tables and the pictures.
(() => {
  const help = document.getElementById('help');
  document.getElementById('help-button').addEventListener('click', () => help.showModal());
  help.addEventListener('click', (event) => {
    if (event.target === help) help.close();
  });

  document.addEventListener('keydown', (event) => {
    const typing = event.target.closest?.('input, textarea, select');
    if (typing || event.ctrlKey || event.metaKey || event.altKey || help.open) return;
    const field = document.getElementById('query');
    if (event.key === '/') {
      event.preventDefault();
      field.focus();
      field.select();
    } else if (event.key === '?') {
      help.showModal();
    } else if (event.key === 'd') {
      document.getElementById('theme').click();
    } else if (event.key === 'ArrowLeft' || event.key === 'ArrowRight') {
      if (event.target.closest?.('.view, .code, .scroll, pre')) return; // these move or scroll
      stages.step(event.key === 'ArrowLeft' ? -1 : 1);
    }
  });

  // A predicate is lit in the query, the table and the join graph together.
  function light(names, on) {
    const wanted = new Set(names);
    for (const element of document.querySelectorAll('[data-preds]')) {
      if (element.dataset.preds.split(' ').some((name) => wanted.has(name))) element.classList.toggle('lit', on);
    }
  }
  for (const element of document.querySelectorAll('[data-preds]')) {
    const names = element.dataset.preds.split(' ');
    for (const [on, off] of [['mouseenter', 'mouseleave'], ['focusin', 'focusout']]) {
      element.addEventListener(on, () => light(names, true));
      element.addEventListener(off, () => light(names, false));
    }
  }
  const links = new Map([...document.querySelectorAll('.contents a')].map((link) => [link.hash.slice(1), link]));
  const places = [...links.keys()].map((id) => document.getElementById(id)).filter(Boolean);
  let waiting = false;
  function whereAmI() {
    waiting = false;
    const passed = places.filter((place) => place.getBoundingClientRect().top < innerHeight * 0.35);
    for (const link of links.values()) link.removeAttribute('aria-current');
    const end = scrollY + innerHeight >= document.documentElement.scrollHeight - 4 && scrollY > 0;
    links.get((end ? places.at(-1) : passed.at(-1) ?? places[0])?.id)?.setAttribute('aria-current', 'location');
  }
  addEventListener('scroll', () => {
    if (!waiting) requestAnimationFrame(whereAmI);
    waiting = true;
  }, { passive: true });
  whereAmI();
})();
