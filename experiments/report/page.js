document.querySelectorAll('table.sortable').forEach(table => {
  const body = table.tBodies[0];
  table.querySelectorAll('th').forEach((head, column) => head.addEventListener('click', () => {
    const up = head.dataset.up !== 'yes'; table.querySelectorAll('th').forEach(h => delete h.dataset.up);
    head.dataset.up = up ? 'yes' : 'no';
    const key = row => row.cells[column].dataset.value ?? row.cells[column].textContent;
    const rows = [...body.rows].sort((a, b) => { const x = key(a), y = key(b), n = Number(x) - Number(y);
      return (up ? 1 : -1) * (Number.isNaN(n) ? String(x).localeCompare(String(y)) : n); });
    body.append(...rows);
  }));
});
const choose = name => {
  const box = document.querySelector(`input.filter[data-table="${name}"]`);
  const only = document.querySelector(`input.front[data-table="${name}"]`);
  const words = box ? box.value.toLowerCase().split(/\s+/).filter(Boolean) : [];
  for (const row of document.getElementById(name).tBodies[0].rows) { const text = row.textContent.toLowerCase();
    const left = only && only.checked ? row.classList.contains('front') : true;
    row.hidden = !(left && words.every(word => text.includes(word))); }
};
const save = (place, word, name, blob) => { const button = document.createElement('button');
  button.className = 'save'; button.textContent = word;
  button.addEventListener('click', async () => { const link = document.createElement('a');
    link.href = URL.createObjectURL(await blob()); link.download = name; link.click(); });
  place.prepend(button); };
document.querySelectorAll('table.sortable').forEach(table => save(table.closest('.scroll').parentElement, 'CSV',
  `${table.id}.csv`, () => { const cell = each => `"${(each.dataset.value ?? each.textContent).replaceAll('"', '""')}"`;
    const rows = [...table.rows].filter(row => !row.hidden).map(row => [...row.cells].map(cell).join(','));
    return new Blob([rows.join('\n') + '\n'], {type: 'text/csv'}); }));
document.querySelectorAll('.figure > svg').forEach((drawn, i) => save(drawn.parentElement, 'PNG', `figure${i + 1}.png`,
  () => new Promise(done => { const copy = drawn.cloneNode(true), box = drawn.viewBox.baseVal, image = new Image();
    const canvas = Object.assign(document.createElement('canvas'), {width: 3 * box.width, height: 3 * box.height});
    copy.setAttribute('width', canvas.width); copy.setAttribute('height', canvas.height);
    image.onload = () => { const brush = canvas.getContext('2d'); brush.fillStyle = '#fff';
      brush.fillRect(0, 0, canvas.width, canvas.height); brush.drawImage(image, 0, 0); canvas.toBlob(done); };
    image.src = URL.createObjectURL(new Blob([new XMLSerializer().serializeToString(copy)], {type: 'image/svg+xml'}));
  })));
document.querySelectorAll('svg[data-points]').forEach(drawn => {
  const points = JSON.parse(drawn.dataset.points), tip = document.createElement('div'), view = drawn.viewBox.baseVal;
  tip.className = 'tip'; tip.hidden = true; drawn.parentElement.append(tip);
  drawn.addEventListener('pointermove', event => {
    const box = drawn.getBoundingClientRect(), scale = view.width / box.width;
    const far = ([x, y]) => Math.hypot(x - (event.clientX - box.left) * scale, y - (event.clientY - box.top) * scale);
    const near = points.reduce((best, one) => far(one) < far(best) ? one : best, points[0]);
    tip.hidden = !near || far(near) > 30 * scale;
    if (tip.hidden) return;
    const place = drawn.parentElement.getBoundingClientRect();
    tip.textContent = near[2]; tip.style.top = `${box.top - place.top + near[1] / scale + 10}px`;
    tip.style.left = `${Math.min(box.left - place.left + near[0] / scale, place.width - tip.offsetWidth)}px`; });
  drawn.addEventListener('pointerleave', () => { tip.hidden = true; });
});
document.querySelectorAll('input.filter, input.front').forEach(box =>
  box.addEventListener('input', () => choose(box.dataset.table)));
document.querySelectorAll('.timeline').forEach(box => {
  const {lanes, events} = JSON.parse(box.dataset.timeline), canvas = box.querySelector('canvas'), tip = document.createElement('div');
  const row = 22, left = 150, brush = canvas.getContext('2d'), whole = [0, Math.max(...events.map(one => one[2]), 1e-12)];
  let [from, to] = whole, dragged = null;
  tip.className = 'tip'; tip.hidden = true; box.append(tip);
  const across = time => left + (time - from) / (to - from) * (box.clientWidth - left);
  const when = x => from + (x - left) / (box.clientWidth - left) * (to - from);
  const named = time => { const [size, unit] = [[60, 'min', 180], [1, 's'], [1e-3, 'ms'], [1e-6, '\u00b5s'], [1e-9, 'ns']]
    .find(([size, , least]) => to - from >= (least || size)) || [1e-9, 'ns']; return `${Number((time / size).toPrecision(6))} ${unit}`; };
  const draw = () => { const width = box.clientWidth, height = lanes.length * row + 26, sharp = window.devicePixelRatio || 1;
    canvas.width = width * sharp; canvas.height = height * sharp; canvas.style.height = `${height}px`;
    brush.setTransform(sharp, 0, 0, sharp, 0, 0);
    const ink = getComputedStyle(document.body).color; brush.font = '12px system-ui, sans-serif';
    const step = 10 ** Math.floor(Math.log10((to - from) / 3));
    const gap = step * [1, 2, 5].reduce((best, one) => (to - from) / (one * step) >= (width - left) / 110 ? best : Math.min(best, one), 10);
    for (let tick = Math.ceil(from / gap) * gap; tick <= to; tick += gap) { brush.fillStyle = '#8885';
      brush.fillRect(across(tick), 0, 1, height - 20); brush.fillStyle = ink; brush.fillText(named(tick), across(tick) + 3, height - 6); }
    for (const [lane, start, end, colour] of events) { if (end < from || start > to) continue;
      const x = Math.max(left, across(start)); brush.fillStyle = colour;
      brush.fillRect(x, lane * row + 3, Math.max(1, Math.min(width, across(end)) - x - (across(end) - x > 3 ? 1 : 0)), row - 6); }
    brush.fillStyle = ink;
    lanes.forEach((lane, i) => brush.fillText(lane.length > 22 ? lane.slice(0, 21) + '\u2026' : lane, 2, i * row + 15)); };
  canvas.addEventListener('wheel', event => { event.preventDefault(); const at = when(event.offsetX), factor = event.deltaY < 0 ? 0.8 : 1.25;
    [from, to] = [at - (at - from) * factor, at + (to - at) * factor];
    [from, to] = [Math.max(whole[0], from), Math.min(whole[1], to)];
    if (to - from < 1e-9 * whole[1]) [from, to] = [from, from + 1e-9 * whole[1]]; draw(); }, {passive: false});
  canvas.addEventListener('pointerdown', event => { dragged = [event.offsetX, from, to]; canvas.setPointerCapture(event.pointerId); });
  canvas.addEventListener('pointerup', () => { dragged = null; });
  canvas.addEventListener('dblclick', () => { [from, to] = whole; draw(); });
  canvas.addEventListener('pointerleave', () => { tip.hidden = true; });
  canvas.addEventListener('pointermove', event => {
    if (dragged) { const moved = (dragged[0] - event.offsetX) / (box.clientWidth - left) * (dragged[2] - dragged[1]);
      const kept = Math.min(whole[1] - dragged[2], Math.max(whole[0] - dragged[1], moved));
      [from, to] = [dragged[1] + kept, dragged[2] + kept]; draw(); return; }
    const lane = Math.floor(event.offsetY / row), time = when(event.offsetX), near = 2 * (to - from) / box.clientWidth;
    const found = events.find(one => one[0] === lane && one[1] - near <= time && time <= one[2] + near);
    tip.hidden = !found || event.offsetX < left;
    if (!tip.hidden) { tip.textContent = found[4]; tip.style.top = `${(lane + 1) * row + 4}px`;
      tip.style.left = `${Math.min(event.offsetX, box.clientWidth - tip.offsetWidth)}px`; } });
  addEventListener('resize', draw); draw();
});
