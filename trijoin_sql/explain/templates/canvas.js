// Pictures that zoom and move: by buttons, keys, the wheel and dragging. A picture is zoomed by its viewBox.
for (const canvas of document.querySelectorAll('.canvas')) {
  const view = canvas.querySelector('.view');
  const svg = canvas.querySelector('svg');
  const shown = canvas.querySelector('.zoom output');
  const [left, top, width, height] = svg.getAttribute('viewBox').split(' ').map(Number);
  const most = 8;
  let scale = 1;
  let x = left;
  let y = top;

  function draw() {
    const w = width / scale;
    const h = height / scale;
    x = Math.min(Math.max(x, left), left + width - w);
    y = Math.min(Math.max(y, top), top + height - h);
    svg.setAttribute('viewBox', [x, y, w, h].map((value) => Math.round(value * 100) / 100).join(' '));
    shown.textContent = `${Math.round(scale * 100)}%`;
    view.classList.toggle('zoomed', scale > 1);
  }

  // The point of the picture under a point of the screen, as parts of the view from 0 to 1.
  function under(event) {
    const box = svg.getBoundingClientRect();
    return [(event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height];
  }

  function zoom(factor, at = [0.5, 0.5]) {
    const next = Math.min(Math.max(scale * factor, 1), most);
    x += (width / scale - width / next) * at[0];
    y += (height / scale - height / next) * at[1];
    scale = next;
    draw();
  }

  function move(dx, dy) {
    x += (dx * width) / scale;
    y += (dy * height) / scale;
    draw();
  }

  function fit() {
    scale = 1;
    draw();
  }

  canvas.querySelector('.zoom').addEventListener('click', (event) => {
    const kind = event.target.closest('button')?.dataset.zoom;
    if (kind === 'in') zoom(1.4);
    if (kind === 'out') zoom(1 / 1.4);
    if (kind === 'fit') fit();
  });

  view.addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const step = 0.12;
    const moves = { ArrowLeft: [-step, 0], ArrowRight: [step, 0], ArrowUp: [0, -step], ArrowDown: [0, step] };
    if (event.key === '+' || event.key === '=') zoom(1.4);
    else if (event.key === '-') zoom(1 / 1.4);
    else if (event.key === '0') fit();
    else if (moves[event.key] && scale > 1) move(...moves[event.key]);
    else return;
    event.preventDefault();
    event.stopPropagation();
  });

  view.addEventListener('wheel', (event) => {
    if (!event.ctrlKey && !view.contains(document.activeElement)) return; // the page scrolls
    if (scale === 1 && event.deltaY > 0 && !event.ctrlKey) return;
    event.preventDefault();
    zoom(Math.exp(-event.deltaY * (event.deltaMode === 1 ? 0.06 : 0.002)), under(event));
  }, { passive: false });

  let grabbed = null;
  view.addEventListener('pointerdown', (event) => {
    if (event.button !== 0 || scale === 1) return;
    grabbed = [event.clientX, event.clientY];
    view.setPointerCapture(event.pointerId);
    view.classList.add('dragged');
  });
  view.addEventListener('pointermove', (event) => {
    if (!grabbed) return;
    const box = svg.getBoundingClientRect();
    move((grabbed[0] - event.clientX) / box.width, (grabbed[1] - event.clientY) / box.height);
    grabbed = [event.clientX, event.clientY];
  });
  for (const end of ['pointerup', 'pointercancel']) {
    view.addEventListener(end, () => {
      grabbed = null;
      view.classList.remove('dragged');
    });
  }
}
