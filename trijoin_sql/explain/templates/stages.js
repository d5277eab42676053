// The plan's stages: one at a time, with buttons and arrow keys.
const stages = (() => {
  const all = [...document.querySelectorAll('.steps [role=tab]')];
  const folded = document.getElementById('stages-same'); // those that changed nothing are left out, unless it is pressed
  let tabs = all;

  function fold(on) {
    tabs = on ? all.filter((tab) => !tab.classList.contains('same')) : all;
    for (const tab of all) tab.hidden = !tabs.includes(tab);
    folded?.setAttribute('aria-pressed', String(!on));
  }
  const before = document.getElementById('stage-before');
  const after = document.getElementById('stage-after');
  let now = 0;

  function panel(tab) { return document.getElementById(tab.getAttribute('aria-controls')); }

  function show(index, focus) {
    if (!tabs.length) return;
    now = Math.min(Math.max(index, 0), tabs.length - 1);
    for (const tab of all) {
      const shown = tab === tabs[now];
      tab.setAttribute('aria-selected', String(shown));
      tab.tabIndex = shown ? 0 : -1;
      panel(tab).hidden = !shown;
    }
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
    for (const tab of all) tab.addEventListener('click', () => show(tabs.indexOf(tab)));
    folded?.addEventListener('click', () => {
      const shown = tabs[now];
      fold(folded.getAttribute('aria-pressed') === 'true');
      show(Math.max(tabs.indexOf(shown), 0));
    });
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
    fold(true);
    show(0);
    mode('stages');
  }

  return {
    step: (by) => show(now + by),
    reveal: (element) => {
      const tab = all.find((one) => panel(one).contains(element));
      if (!tab) return;
      if (!tabs.includes(tab)) fold(false);
      show(tabs.indexOf(tab));
    },
  };
})();
