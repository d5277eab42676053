// Search over the page. A match may run over several elements: text is searched block by block.
(() => {
  const form = document.getElementById('search');
  const field = document.getElementById('query');
  const output = document.getElementById('hits');
  const main = document.getElementById('content');
  const blocks = 'pre, p, li, td, th, dt, dd, h1, h2, h3, button, summary, caption, .length';
  const left = '.numbers, .margin, .visually-hidden, title, .zoom, .walk, .modes, .delta';
  let hits = []; // each a list of elements
  let now = -1;

  function clear() {
    for (const element of main.querySelectorAll('text.hit')) element.classList.remove('hit', 'now');
    for (const mark of main.querySelectorAll('mark.hit')) {
      const parent = mark.parentNode;
      mark.replaceWith(...mark.childNodes);
      parent.normalize();
    }
    hits = [];
    now = -1;
  }

  function texts() {
    const walker = document.createTreeWalker(main, NodeFilter.SHOW_TEXT, (node) => {
      const parent = node.parentElement;
      const skipped = !node.data.trim() || parent.closest(left) || parent.closest('[data-view][hidden]');
      return skipped ? NodeFilter.FILTER_REJECT : NodeFilter.FILTER_ACCEPT;
    });
    const found = [];
    while (walker.nextNode()) found.push(walker.currentNode);
    return found;
  }

  function groups() {
    const found = [];
    for (const node of texts()) {
      const block = node.parentElement.closest('text') ?? node.parentElement.closest(blocks) ?? node.parentElement;
      const last = found.at(-1);
      if (last && last.block === block) last.nodes.push(node);
      else found.push({ block, nodes: [node] });
    }
    return found;
  }

  function wrap(node, from, to) {
    const part = from ? node.splitText(from) : node;
    if (to - from < part.data.length) part.splitText(to - from);
    const mark = document.createElement('mark');
    mark.className = 'hit';
    part.replaceWith(mark);
    mark.append(part);
    return mark;
  }

  function search() {
    clear();
    const wanted = field.value.trim();
    if (wanted) {
      const pattern = new RegExp(wanted.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&').replace(/\s+/g, '\\s+'), 'giu');
      for (const { block, nodes } of groups()) {
        const content = nodes.map((node) => node.data).join('');
        const matches = [...content.matchAll(pattern)];
        if (!matches.length) continue;
        if (block.localName === 'text') {
          block.classList.add('hit');
          hits.push([block]);
          continue;
        }
        hits.push(...mark(nodes, matches));
      }
      now = hits.length ? 0 : -1;
    }
    show();
  }

  // From the last match to the first, so that what is before keeps its place.
  function mark(nodes, matches) {
    const found = [];
    for (const match of matches.reverse()) {
      const end = match.index + match[0].length;
      const marks = [];
      let offset = 0;
      for (const node of nodes) {
        const length = node.data.length;
        const from = Math.max(match.index - offset, 0);
        const to = Math.min(end - offset, length);
        if (from < to) marks.push([node, from, to]);
        offset += length;
      }
      found.unshift(marks.map((part) => wrap(...part)));
    }
    return found;
  }

  function show() {
    for (const element of main.querySelectorAll('.hit.now')) element.classList.remove('now');
    output.textContent = hits.length ? `${now + 1} of ${hits.length}` : field.value.trim() ? 'none' : '';
    document.getElementById('previous').disabled = document.getElementById('next').disabled = !hits.length;
    if (now < 0) return;
    const [first] = hits[now];
    for (const element of hits[now]) element.classList.add('now');
    stages.reveal(first);
    first.closest('details')?.setAttribute('open', '');
    first.scrollIntoView({ block: 'center', inline: 'nearest' });
  }

  function step(by) {
    if (!hits.length) return;
    now = (now + by + hits.length) % hits.length;
    show();
  }

  let timer = 0;
  field.addEventListener('input', () => {
    clearTimeout(timer);
    timer = setTimeout(search, 90);
  });
  field.addEventListener('keydown', (event) => {
    if (event.key === 'Escape') {
      field.value = '';
      search();
      field.blur();
    } else if (event.key === 'Enter') {
      event.preventDefault();
      step(event.shiftKey ? -1 : 1);
    }
  });
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    step(1);
  });
  document.getElementById('previous').addEventListener('click', () => step(-1));
  document.addEventListener('contentchange', () => {
    if (field.value.trim()) search();
  });
})();
