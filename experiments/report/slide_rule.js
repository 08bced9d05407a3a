const slipstick = {
  names: model.names,
  sizes: model.names.map((name, i) => [name, i]).filter(([name]) => /^(run|workload)[.]/.test(name)).map(([, i]) => i),
  tables(group, v) {  // the machine does not change the amounts of the work
    const key = this.sizes.map(i => v[i]).join();
    if (group.key !== key) Object.assign(group, {key, table: group.rows(v), weighted: group.weights(v)});
    return [group.table, group.weighted];
  },
  run(dials, bound) {
    const v = model.follow(dials), t = new Array(model.totals).fill(0);
    let whole = 0;
    for (const group of model.groups) {
      const [rows, weighted] = this.tables(group, v), times = group.times(v, rows);
      group.lanes.forEach(([time, count], lane) => weighted[lane].forEach((weight, i) => {
        if (time >= 0) t[time] += weight * times[i][0];
        if (count >= 0) t[count] += weight;
        whole += weight * times[i][0];
        if (bound && group.terms.length && weight) {
          const ties = group.terms.map(([name, term]) => [name, term(v, rows[i], group.menu, times[i][1])]);
          const name = ties.reduce((a, b) => b[1] > a[1] ? b : a)[0];
          bound[name] = (bound[name] || 0) + weight * times[i][0]; }
      }));
    }
    const time = model.schedule(v, t);
    if (bound && time > whole * (1 + 1e-9)) bound[about.rest] = time - whole;
    return time;
  },
  time(dials) { return this.run(dials); },
  spread(logs) { const mean = logs.reduce((a, b) => a + b, 0) / logs.length;
    return Math.sqrt(logs.reduce((a, b) => a + (b - mean) ** 2, 0) / Math.max(1, logs.length - 1)); },
  drawn(dials) { return about.draws.map(draw => { const turned = [...dials];
    about.fitted.forEach((place, i) => { turned[place] = draw[i]; }); return Math.log(this.time(turned)); }); },
  band(dials) {
    if (about.residual === null && !about.draws.length) return null;
    const here = this.drawn(dials), today = this.todayDraws ??= this.drawn(about.today);
    const same = dials.every((value, i) => value === about.today[i]);
    const scatter = point => about.tail * Math.hypot(about.residual || 0, about.seconds / this.time(point));
    const own = point => Math.sqrt(Math.max(0, scatter(point) ** 2 - (about.tail * about.common) ** 2));
    const time = Math.hypot(here.length ? about.width * this.spread(here) : 0, scatter(dials));
    const sizes = dials.some((value, i) => value !== about.today[i] && !model.names[i].startsWith('machine.'));
    const apart = Math.sqrt(1 - Math.exp(-Math.abs(Math.log(this.time(dials) / this.time(about.today)))
                                         / about.kept[sizes ? 1 : 0]));
    const change = Math.max(0, ...dials.map((value, i) => model.names[i].startsWith('machine.')
      ? Math.abs(Math.log(value / about.today[i])) : 0));
    const other = about.tail * about.other[0] * Math.sqrt(1 - Math.exp(-change / about.other[1]));
    const ratio = same ? 0 : Math.hypot(here.length ? about.width * this.spread(here.map((x, i) => x - today[i])) : 0,
                                        Math.hypot(own(dials), own(about.today)) * apart, other);
    return {time: Math.exp(time), ratio: Math.exp(ratio)};
  },
  memory(dials) {  // from the table over powers of two of the sizes, straight between them in logarithms
    const m = about.memory;
    if (!m) return null;
    const count = m.powers.length, places = m.sizes.map(i => {
      const at = Math.log2(dials[i] / about.today[i]) - m.powers[0];
      const first = Math.min(count - 2, Math.max(0, Math.floor(at)));
      return [first, at - first]; });
    let log = 0;
    for (let corner = 0; corner < 2 ** places.length; corner++) {
      let place = 0, weight = 1;
      places.forEach(([first, part], k) => { const up = corner >> k & 1;
        place = place * count + first + up; weight *= up ? part : 1 - part; });
      if (weight) log += weight * m.values[place];
    }
    const needed = Math.exp(log), there = m.there * (m.capacity < 0 ? 1 : dials[m.capacity] / about.today[m.capacity]);
    return {needed, there, word: m.words[needed * m.wide <= there ? 0 : needed / m.wide > there ? 2 : 1]};
  },
  number(value) {
    const size = Math.abs(value);
    if (size && (size < 1e-3 || size >= 1e7)) return value.toPrecision(3);
    if (Number.isInteger(value)) return value.toLocaleString('en-US');
    return Number(value.toPrecision(3)).toLocaleString('en-US', {maximumFractionDigits: 6}); },
  scale(value, unit) {
    if (unit === 's' && value >= 60) return value >= 7200 ? [3600, 'h'] : [60, 'min'];
    const scales = [[1e12, 'T'], [1e9, 'G'], [1e6, 'M'], [1e3, 'k'], [1, ''], [1e-3, 'm'], [1e-6, '\u00b5'], [1e-9, 'n']];
    const kept = scales.filter(([size]) => unit === 's' ? size <= 1 : size >= 1);
    const [size, prefix] = kept.find(([size]) => value >= size * (1 - 1e-12)) || kept[kept.length - 1];
    return [size, prefix + unit]; },
  together(values, unit) {  // in the unit of the first
    const [size, name] = this.scale(values[0], unit);
    return values.map(value => this.number(Number((value / size).toPrecision(3)))).join(' .. ') + ' ' + name; },
  dial(value, place) { const [size, name] = about.units[place];
    return (this.number(value / size) + ' ' + name).trim(); },
};
if (model.tables) Object.assign(slipstick, {  // no formula: read between points of a table, in logarithms
  power(dials, i) { return Math.log2(dials[i] / about.today[i]); },
  read(table, values, power) {
    if (!values) return 0;
    let k = table.at.findIndex((at, index) => index > 0 && power <= at);
    if (k < 0) k = table.at.length - 1;
    const part = (power - table.at[k - 1]) / (table.at[k] - table.at[k - 1]);
    return values[k - 1] + Math.min(1, Math.max(0, part)) * (values[k] - values[k - 1]); },
  run(dials, bound) {
    const powers = dials.map((_, i) => this.power(dials, i));
    const time = model.seconds * Math.exp(powers.reduce(
      (sum, power, i) => sum + (power ? this.read(model.tables[i], model.tables[i].ratio, power) : 0), 0));
    if (bound) {  // of the quantity that was moved farthest
      const far = powers.reduce((best, power, i) => Math.abs(power) > Math.abs(powers[best]) ? i : best, 0);
      const {bounds_at: at, bounds} = model.tables[far];
      const near = at.reduce((best, one, k) => Math.abs(one - powers[far]) < Math.abs(at[best] - powers[far]) ? k : best, 0);
      for (const [name, share] of Object.entries(bounds[near])) bound[name] = share * time; }
    return time; },
  band(dials) {
    const [first] = model.tables;
    if (!first.half) return null;
    const moved = dials.map((_, i) => [model.tables[i], this.power(dials, i)]).filter(([, power]) => power);
    const today = this.read(first, first.of_time, 0);
    return {time: Math.exp(Math.max(today, ...moved.map(([table, power]) => this.read(table, table.of_time, power)))),
            ratio: Math.exp(Math.hypot(0, ...moved.map(([table, power]) => this.read(table, table.half, power))))}; },
});
window.slipstick = slipstick;
const svgCurve = (place, x, y, low, high, here) => {
  const width = Math.max(320, Math.min(1100, document.getElementById('curve').clientWidth || 700)), height = 320;
  const [left, right, top, bottom] = [58, 12, 12, 46], log = Math.log10, [size, unit] = about.units[place];
  const xs = x.map(value => value / size);
  const range = values => { const [a, b] = [Math.min(...values), Math.max(...values)];
    return a < b ? [log(a), log(b)] : [log(a) - 0.05, log(b) + 0.05]; };
  const across = range(xs), up = range([...low, ...high, ...y, 1]);
  const px = value => left + (log(value) - across[0]) / (across[1] - across[0]) * (width - left - right);
  const py = value => height - bottom - (log(value) - up[0]) / (up[1] - up[0]) * (height - top - bottom);
  const ticks = ([a, b]) => { const found = [], steps = b - a < 0.35 ? [1, 1.2, 1.4, 1.6, 1.8, 2, 2.5, 3, 4, 5, 6, 7, 8, 9] : [1, 2, 5];
    for (let power = Math.floor(a); power <= Math.ceil(b); power++) for (const step of steps) {
      const value = step * 10 ** power; if (log(value) >= a - 1e-9 && log(value) <= b + 1e-9) found.push(value); }
    return found; };
  const line = (points, more) => `<polyline points="${points.map(([a, b]) => a.toFixed(1) + ',' + b.toFixed(1)).join(' ')}" ${more}/>`;
  const text = (a, b, words, more) => `<text x="${a.toFixed(1)}" y="${b.toFixed(1)}" ${more}>${words}</text>`;
  const parts = [];
  for (const value of ticks(across)) parts.push(`<path d="M${px(value).toFixed(1)} ${top}V${height - bottom}" class="grid" />`,
    text(px(value), height - bottom + 16, slipstick.number(value), 'text-anchor="middle"'));
  for (const value of ticks(up)) parts.push(`<path d="M${left} ${py(value).toFixed(1)}H${width - right}" class="grid" />`,
    text(left - 6, py(value) + 4, slipstick.number(value), 'text-anchor="end"'));
  parts.push(line([...xs.map((value, i) => [px(value), py(high[i])]), ...xs.map((value, i) => [px(value), py(low[i])]).reverse()],
    'fill="rgba(31,90,145,0.16)" stroke="none"'));
  parts.push(line(xs.map((value, i) => [px(value), py(y[i])]), 'fill="none" stroke="#1f5a91" stroke-width="2"'));
  parts.push(`<circle cx="${px(here[0] / size).toFixed(1)}" cy="${py(here[1]).toFixed(1)}" r="5" fill="#c2571a" />`);
  const name = model.names[place].replaceAll('<', '&lt;') + (unit ? ' [' + unit + ']' : '');
  parts.push(text((left + width - right) / 2, height - 8, name, 'text-anchor="middle"'));
  parts.push(text(0, 0, "time / today's time", `text-anchor="middle" transform="translate(14 ${(height - bottom + top) / 2}) rotate(-90)"`));
  document.getElementById('curve').innerHTML = `<svg viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img">${parts.join('')}</svg>`;
};
(() => {
  const inputs = about.today.map((_, place) => document.querySelector(`input[data-dial="${place}"]`));
  if (!inputs.length || !inputs[0]) return;
  const put = (id, text) => { document.getElementById(id).textContent = text; };
  const turned = (place, power) => {
    const value = Math.min(about.high[place], Math.max(about.low[place], about.today[place] * 2 ** power));
    return about.whole[place] && power !== 0 ? Math.max(1, Math.round(value)) : value; };
  const dials = () => about.today.map((_, place) => turned(place, Number(inputs[place].value)));
  const base = slipstick.time(about.today);
  const percent = Math.round(about.level * 100) + ' % likely: ';
  const show = () => {
    const now = dials(), bound = {}, time = slipstick.run(now, bound), band = slipstick.band(now), ratio = time / base;
    slipstick.now = {time, ratio, band, bound, memory: slipstick.memory(now)};
    put('ratio', ratio.toPrecision(3)); put('time', slipstick.together([time], 's'));
    const [least, most] = band ? [ratio / band.ratio, ratio * band.ratio].map(x => x.toPrecision(3)) : [];
    put('ratio-band', band ? percent + least + ' .. ' + most : 'how sure is unknown: not calibrated');
    put('time-band', band ? percent + slipstick.together([time / band.time, time * band.time], 's') : '');
    const whole = Object.values(bound).reduce((a, b) => a + b, 0);
    const sorted = Object.entries(bound).sort((a, b) => b[1] - a[1]);
    put('bound', sorted.length ? sorted[0][0] : 'one formula');
    put('bound-shares', sorted.filter(([, part]) => part >= 0.005 * whole).map(([name, part]) => name + ' ' + (100 * part / whole).toFixed(0) + ' %').join(', '));
    const memory = slipstick.now.memory;
    if (memory) { document.getElementById('memory-card').hidden = false;
      put('memory', slipstick.together([memory.needed], 'B'));
      put('memory-fit', 'of ' + slipstick.together([memory.there], 'B') + ' ' + about.memory.level + ': ' + memory.word); }
    now.forEach((value, place) => put('dial' + place, slipstick.dial(value, place)));
    const place = Number(document.getElementById('over').value), x = [], y = [], low = [], high = [];
    for (let power = -3; power <= 3.0001; power += about.draws.length ? 0.5 : 0.25) {
      const there = [...now]; there[place] = turned(place, power);
      if (x.length && there[place] <= x[x.length - 1]) continue;
      const value = slipstick.time(there) / base, width = slipstick.band(there);
      x.push(there[place]); y.push(value); low.push(width ? value / width.ratio : value);
      high.push(width ? value * width.ratio : value);
    }
    svgCurve(place, x, y, low, high, [now[place], ratio]);
  };
  let waiting = false;
  const later = () => { if (!waiting) { waiting = true; requestAnimationFrame(() => { waiting = false; show(); }); } };
  inputs.forEach(input => input.addEventListener('input', later));
  document.getElementById('over').addEventListener('change', later);
  document.getElementById('reset').addEventListener('click', () => { inputs.forEach(i => { i.value = 0; }); later(); });
  show();
})();
