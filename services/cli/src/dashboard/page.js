// Shows /state, refreshed once a second, and sends the buttons' actions.
const EVERY = 1000;
const POINTS = 120;
const token = document.querySelector("meta[name=token]").content;
const byId = (id) => document.getElementById(id);
const history = [];
const replicas = new Map();
const named = new Set();
let before = null;
let opened = null;
let marks = [];
// The chart under the pointer, and the pointer's horizontal position in it, from 0 to 1.
let pointed = null;

const whole = new Intl.NumberFormat("en");
const count = (value) => (value == null ? "–" : whole.format(Math.round(value)));
const rate = (value) => (value == null ? "–" : value < 10 ? value.toFixed(1) : count(value));
const millis = (value) => (value == null ? "–" : value < 10 ? value.toFixed(2) : value < 100 ? value.toFixed(1) : count(value));

// Writes only the differences to keep the reader's selection and focus.
const put = (element, text) => { if (element.textContent !== text) element.textContent = text; };
const set = (element, name, value) => { if (element.getAttribute(name) !== value) element.setAttribute(name, value); };
const make = (tag, className, text = "") => Object.assign(document.createElement(tag), { className, textContent: text });

function note(text, mark = false) {
  const line = make("p", "");
  line.append(make("time", "", new Date().toLocaleTimeString("en-GB")), text);
  const events = byId("events");
  if (!events.querySelector("time")) events.replaceChildren();
  events.prepend(line);
  while (events.children.length > 50) events.lastChild.remove();
  if (mark && before) marks.push(before.at);
}

async function act(path, text) {
  try {
    const reply = await fetch(path, { method: "POST", headers: { "corelane-token": token } });
    if (!reply.ok) note((await reply.json()).detail);
    else if (text) note(text, true);
  } catch (error) {
    note(`No reply from the dashboard: ${error.message}`);
  }
}

function button(parent, label, onclick) {
  const made = make("button", "", label);
  made.type = "button";
  made.addEventListener("click", () => made.getAttribute("aria-disabled") !== "true" && onclick());
  parent.append(made);
  return made;
}

function newReplica(name) {
  const item = make("li", "node replica");
  const parts = { item, word: make("p", "state"), rate: make("span", "number"), lanes: make("div", "lanes"), actions: make("div", "actions") };
  parts.link = make("a", "", name);
  const head = make("h3", "");
  head.append(parts.link);
  const line = make("p", "");
  line.append(parts.rate, make("span", "muted", " requests/s"));
  item.append(head, line, parts.word, parts.lanes, parts.actions);
  parts.word.style.gridColumn = "1 / -1";
  const path = `/replicas/${encodeURIComponent(name)}/`;
  parts.kill = button(parts.actions, "Kill", () => act(path + "kill", `Killed ${name} (SIGKILL)`));
  // The state change that follows does not count as a second event.
  const expect = (word, action, text) => { parts.expected = word; return act(path + action, text); };
  parts.drain = button(parts.actions, "Drain", () => expect("draining", "drain", `Draining ${name} (SIGTERM)`));
  parts.delay = button(parts.actions, "Delay by 100 ms", () => (parts.delayed
    ? expect("serving", "undelay", `${name} is as fast as before`)
    : expect("serving, 100 ms slower", "delay", `Every request of ${name} takes 100 ms more, for 30 s`)));
  set(parts.kill, "aria-label", `Kill ${name}`);
  set(parts.drain, "aria-label", `Drain ${name}`);
  set(parts.delay, "aria-label", `Delay by 100 ms: ${name}`);
  byId("replicas").append(item);
  return parts;
}

function condition(replica) {
  if (["settling", "closing"].includes(replica.phase)) return ["draining", "warn"];
  if (replica.gateway?.healthy && replica.faults) return ["serving, 100 ms slower", "warn"];
  if (replica.gateway?.healthy) return ["serving", ""];
  return replica.phase === "serving" ? ["waiting for the gateway", "warn"] : ["restarting", "bad"];
}

function say(element, [word, kind]) {
  put(element, word);
  set(element, "class", `state ${kind}`);
}

function showReplica(replica, rateOf) {
  if (!replicas.has(replica.name)) replicas.set(replica.name, newReplica(replica.name));
  const parts = replicas.get(replica.name);
  const found = condition(replica);
  say(parts.word, found);
  // The replica may be back up before the page notices that it was down.
  parts.restarted ||= replica.uptime != null && replica.uptime < parts.uptime;
  parts.uptime = replica.uptime ?? parts.uptime;
  if (parts.restarted && found[0] === "serving") {
    note(`${replica.name} is serving again, as a new process`);
    parts.restarted = false;
  } else if (parts.last && parts.last !== found[0]) {
    if (parts.expected !== found[0]) note(`${replica.name} is ${found[0]}`);
    parts.expected = null;
  }
  parts.last = found[0];
  if (replica.phase != null) set(parts.link, "href", `http://${location.hostname}:${replica.admin_port}/lanes`);
  put(parts.rate, rate(rateOf));
  showLanes(parts.lanes, replica);
  const works = String(found[1] === "bad");
  set(parts.kill, "aria-disabled", works);
  set(parts.drain, "aria-disabled", works);
  parts.delay.hidden = replica.faults == null && !parts.hadFaults;
  parts.hadFaults ||= replica.faults != null;
  parts.delayed = replica.faults > 0;
  set(parts.delay, "aria-pressed", String(parts.delayed));
  set(parts.delay, "aria-disabled", works);
}

function showLanes(place, replica) {
  // A restarting replica's lanes stay on the page, shown as idle.
  const lanes = replica.lanes.length ? replica.lanes : [...place.children].map(() => ({ busy: 0, in_flight: 0 }));
  lanes.forEach((lane, index) => {
    let row = place.children[index];
    if (!row) {
      row = make("div", "lane");
      const meter = make("div", "meter");
      meter.append(make("div", ""));
      set(meter, "role", "meter");
      set(meter, "aria-valuemin", "0");
      set(meter, "aria-valuemax", "100");
      set(meter, "aria-label", `Busy share of lane ${index} of ${replica.name}`);
      row.append(make("span", "muted"), meter, make("span", "number"), make("span", "number muted"));
      place.append(row);
    }
    const [name, meter, share, flight] = row.children;
    const percent = Math.min(100, Math.round(lane.busy * 100));
    if (lane.lane != null) put(name, `lane ${lane.lane} · CPU ${lane.cpu ?? replica.cpu}`);
    meter.firstChild.style.width = `${percent}%`;
    set(meter, "aria-valuenow", String(percent));
    put(share, `${percent}%`);
    put(flight, `${lane.in_flight} in flight`);
  });
}

function showLoad(load) {
  const running = load.left != null;
  put(byId("load"), running ? "Stop load" : "Start load");
  byId("progress").max = load.lasts;
  byId("progress").value = running ? load.lasts - load.left : 0;
  put(byId("load-note"), `${load.rate} GETs/s through the gateway for ${load.lasts} s, from this machine`);
  const was = before?.load;
  if (was?.left != null && !running) note(`The load ended: ${count(load.failed)} of ${count(load.ended)} requests failed`);
  if (was && load.failed > was.failed && load.number === was.number) note(`Failed: ${load.failure}`);
}

function showNumbers(state, now) {
  const { load, gateway } = state;
  const failed = load.number ? load.failed : Math.max(0, gateway.failed - opened.failed);
  put(byId("failed"), count(failed));
  byId("failed").classList.toggle("wrong", failed > 0);
  put(byId("failed-note"), load.number ? `of ${count(load.ended)} since the load began` : "5xx since the page opened");
  put(byId("rate"), rate(now.rate));
  put(byId("active"), count(gateway.active));
  put(byId("p50"), millis(now.p50));
  put(byId("p99"), millis(now.p99));
  document.querySelectorAll(".seen-by").forEach((each) => put(each, load.left != null ? "seen by the load" : "at the gateway"));
  put(byId("gateway-rate"), rate(now.rate));
}

function showRoutes(found) {
  // A route stays on the page when Prometheus is late, so that nothing below it moves.
  found.slice(1).forEach((route) => named.add(route.name));
  const routes = [found[0], ...[...named].sort().map((name) => found.find((route) => route.name === name) ?? { name })];
  const most = Math.max(...routes.slice(1).map((route) => route.rate ?? 0));
  const body = byId("routes");
  routes.forEach((route, index) => {
    let row = body.children[index];
    if (!row) {
      row = make("tr", "");
      row.append(Object.assign(make("th", ""), { scope: "row" }), ...[0, 1, 2, 3].map(() => make("td", "")));
      body.append(row);
    }
    const [name, ...cells] = row.children;
    put(name, route.name);
    [rate(route.rate), rate(route.errors), millis(route.p50), millis(route.p99)].forEach((text, cell) => put(cells[cell], text));
    cells[1].className = route.errors > 0 ? "state bad" : "";
    cells[0].className = "share";
    cells[0].style.setProperty("--share", index && route.rate && most > 0 ? `${(100 * route.rate) / most}%` : "0%");
  });
}

// Upper end of a chart's scale: the next round number.
function nice(value) {
  const power = 10 ** Math.floor(Math.log10(Math.max(value, 1)));
  return [1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10].map((each) => each * power).find((each) => each >= value);
}

const UNITS = { rate: "Requests per second", p99: "p99 in milliseconds" };

function draw(name) {
  const chart = byId(`${name}-chart`);
  const known = history.filter((point) => point[name] != null);
  const top = nice(Math.max(1, ...known.map((point) => point[name])));
  const end = history.at(-1).at;
  const x = (at) => POINTS - (end - at);
  let line = "";
  let area = "";
  let open = null;
  history.forEach((point) => {
    if (point[name] == null) { if (open != null) area += `L${open} 40Z`; open = null; return; }
    const place = `${x(point.at).toFixed(2)} ${(40 - (38 * point[name]) / top).toFixed(2)}`;
    line += (open == null ? "M" : "L") + place;
    area += open == null ? `M${x(point.at).toFixed(2)} 40L${place}` : `L${place}`;
    open = x(point.at).toFixed(2);
  });
  if (open != null) area += `L${open} 40Z`;
  const shape = (tag, attributes) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
    Object.entries(attributes).forEach(([key, value]) => made.setAttribute(key, value));
    return made;
  };
  const upright = (at, kind) => shape("line", { x1: x(at), x2: x(at), y1: 0, y2: 40, class: kind });
  const failures = history.filter((point) => point.failed > 0).map((point) => upright(point.at, "failure"));
  const distance = (point) => Math.abs(x(point.at) - pointed.share * POINTS);
  const under = pointed?.name === name && known.length ? known.reduce((best, point) => (distance(point) < distance(best) ? point : best)) : null;
  const lines = [...marks.map((at) => upright(at, "mark")), ...failures, ...(under ? [upright(under.at, "pointer")] : [])];
  chart.replaceChildren(shape("path", { d: area, class: "fill" }), shape("path", { d: line }), ...lines);
  put(byId(`${name}-top`), under ? `${rate(under[name])}, ${Math.round(end - under.at)} s ago` : `0–${count(top)}`);
  set(chart, "aria-label", `${UNITS[name]} over two minutes; now ${rate(known.at(-1)?.[name])}`);
}

function show(state) {
  opened ??= state.gateway;
  const { gateway, load } = state;
  const seconds = before ? state.at - before.at : 0;
  const per = (now, then) => (seconds > 0 && now != null && then != null && now >= then ? (now - then) / seconds : null);
  const all = state.routes[0];
  // The load's clients measure each latency; the gateway's histogram only counts buckets, such as
  // 100 to 250 ms.
  if (load.left != null) Object.assign(all, { p50: load.p50, p99: load.p99 });
  const now = {
    at: state.at,
    rate: per(gateway.total, before?.gateway.total),
    failed: load.number === before?.load.number ? load.failed - before.load.failed : 0,
    p50: all.p50,
    p99: all.p99,
  };
  history.push(now);
  while (history[0].at < state.at - POINTS) history.shift();
  marks = marks.filter((at) => at >= state.at - POINTS);
  put(byId("what"), `${state.services.join(", ")} · ${state.instance}`);
  showLoad(load);
  showNumbers(state, now);
  state.replicas.forEach((replica, index) => showReplica(replica, per(replica.gateway?.total, before?.replicas[index].gateway?.total)));
  const serving = state.replicas.filter((replica) => replica.gateway?.healthy).length;
  const total = state.replicas.length;
  say(byId("gateway-state"), gateway.total == null ? ["restarting", "bad"] : ["serving", ""]);
  say(byId("health"), serving === total ? [`${total} of ${total} replicas serving`, ""] : [`${serving} of ${total} replicas serving`, serving ? "warn" : "bad"]);
  byId("gateway-link").href = `http://${location.hostname}:${gateway.port}/`;
  byId("envoy-link").href = `http://${location.hostname}:${gateway.admin_port}/clusters`;
  byId("prometheus-link").href = `http://${location.hostname}:${state.prometheus}/api/v1/targets`;
  showRoutes(state.routes);
  Object.keys(UNITS).forEach(draw);
  before = state;
}

function lost(reason) {
  byId("lost").hidden = !reason;
  put(byId("lost"), reason ? `These values are old: ${reason}` : "");
  document.querySelector("main").classList.toggle("stale", Boolean(reason));
}

async function turn() {
  try {
    if (!document.hidden) {
      const reply = await fetch("/state", { signal: AbortSignal.timeout(10000) });
      const state = await reply.json();
      if (reply.ok) show(state);
      lost(reply.ok ? "" : state.detail);
    }
  } catch (error) {
    lost(`no reply from the dashboard (${error.message})`);
  }
  setTimeout(turn, EVERY);
}

byId("load").addEventListener("click", () => (before?.load.left != null ? act("/load/stop", "") : act("/load/start", "Started the load")));
Object.keys(UNITS).forEach((name) => {
  const chart = byId(`${name}-chart`);
  const show = (event) => {
    pointed = event.type === "pointermove" ? { name, share: event.offsetX / chart.clientWidth } : null;
    if (history.length) draw(name);
  };
  chart.addEventListener("pointermove", show);
  chart.addEventListener("pointerleave", show);
});
turn();
