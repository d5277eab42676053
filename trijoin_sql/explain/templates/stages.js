// The plan's stages: one at a time, with buttons and arrow keys.
const stages = (() => {
  const tabs = [...document.querySelectorAll('.steps [role=tab]')];
  const before = document.getElementById('stage-before');
  const after = document.getElementById('stage-after');
  let now = 0;

  function panel(tab) { return document.getElementById(tab.getAttribute('aria-controls')); }

  function show(index, focus) {
    if (!tabs.length) return;
    now = Math.min(Math.max(index, 0), tabs.length - 1);
    tabs.forEach((tab, i) => {
      tab.setAttribute('aria-selected', String(i === now));
      tab.tabIndex = i === now ? 0 : -1;
      panel(tab).hidden = i !== now;
    });
    before.disabled = now === 0;
    after.disabled = now === tabs.length - 1;
    document.getElementById('stage-now').textContent = `${now + 1} of ${tabs.length}`;
    const strip = tabs[now].parentElement;
    strip.scrollLeft = tabs[now].offsetLeft - strip.offsetLeft - 16;
    if (focus) tabs[now].focus({ preventScroll: true });
  }

  function mode(name) {
    for (const view of document.querySelectorAll('#plan [data-view]')) view.hidden = view.dataset.view !== name;
    for (const button of document.querySelectorAll('.modes button')) {
      button.setAttribute('aria-pressed', String(button.dataset.mode === name));
    }
    document.dispatchEvent(new Event('contentchange'));
  }

  if (tabs.length) {
    tabs.forEach((tab, i) => tab.addEventListener('click', () => show(i)));
    before.addEventListener('click', () => show(now - 1));
    after.addEventListener('click', () => show(now + 1));
    tabs[0].parentElement.addEventListener('keydown', (event) => {
      const target = {
        ArrowLeft: now - 1, ArrowUp: now - 1, ArrowRight: now + 1, ArrowDown: now + 1, Home: 0, End: tabs.length - 1,
      }[event.key];
      if (target === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      event.stopPropagation();
      show(target, true);
    });
    for (const button of document.querySelectorAll('.modes button')) {
      button.addEventListener('click', () => mode(button.dataset.mode));
    }
    show(0);
    mode('stages');
  }

  return {
    step: (by) => show(now + by),
    reveal: (element) => {
      const index = tabs.findIndex((tab) => panel(tab).contains(element));
      if (index >= 0) show(index);
    },
  };
})();
