// Serves the routes of the reference service with Node's http module: one process, or a cluster with
// one process per thread.

import cluster from "node:cluster";
import http from "node:http";
import { parseArgs } from "node:util";

import send from "send";

const text = (fallback) => ({ type: "string", default: fallback });
const { values: options } = parseArgs({
  options: {
    listen: text(""),
    threads: text("1"),
    static: text(""),
  },
});

const SETTINGS = {
  // Matches the other servers. Proxies keep a connection longer than the default of 5 s.
  keepAliveTimeout: 75_000,
};

// WebAssembly, because JavaScript has no 64-bit integers, and a step takes 100 to 200 ns with
// BigInt. The module in its text format:
//
// ```
//   (func (export "iterate") (param $ops i64) (result i64) (local $state i64)
//     (local.set $state (i64.const 1))
//     (block $done (loop $next
//       (br_if $done (i64.eqz (local.get $ops)))
//       (local.set $state (i64.add (i64.mul (local.get $state) (i64.const 6364136223846793005))
//                                  (i64.const 1442695040888963407)))
//       (local.set $ops (i64.sub (local.get $ops) (i64.const 1)))
//       (br $next)))
//     (local.get $state))
// ```
const WORK =
  "AGFzbQEAAAABBgFgAX4BfgMCAQAHCwEHaXRlcmF0ZQAACjsBOQEBfkIBIQECQANA" +
  "IABQDQEgAUKt/tXk1IX9qNgAfkLPgp677+/eghR8IQEgAEIBfSEADAALCyABCw==";

const module = new WebAssembly.Module(Buffer.from(WORK, "base64"));
const { iterate } = new WebAssembly.Instance(module).exports;

const PLAIN = "text/plain; charset=utf-8";

function sendText(response, status, body, fields) {
  const length = Buffer.byteLength(body);
  response.writeHead(status, { "Content-Type": PLAIN, "Content-Length": length, ...fields });
  response.end(body);
}

function notFound(response) {
  sendText(response, 404, "there is nothing at this address\n");
}

function hello(response) {
  response.writeHead(200, { "Content-Type": PLAIN, "Content-Length": 13 });
  response.end("Hello, World!");
}

function div(response, n) {
  const half = halve(n);
  if (half === undefined) {
    sendText(response, 400, "n must be a decimal number such as 4, -7 or 0.25\n");
  } else {
    sendText(response, 200, half);
  }
}

// Returns half of a decimal number of any length: reads its digits as one integer, multiplies it by five
// and adds a decimal place.
function halve(n) {
  const parts = /^(-?)([0-9]+)(?:\.([0-9]+))?$/.exec(n);
  if (!parts) {
    return undefined;
  }
  const [, sign, whole, fraction = ""] = parts;
  const places = fraction.length + 1;
  const digits = (BigInt(whole + fraction) * 5n).toString().padStart(places + 1, "0");
  const half = digits.slice(-places).replace(/0+$/, "");
  const magnitude = digits.slice(0, -places) + (half && `.${half}`);
  return magnitude === "0" ? "0" : sign + magnitude;
}

function work(response, query) {
  const ops = new URLSearchParams(query).get("ops");
  if (ops === null || !/^[0-9]+$/.test(ops)) {
    sendText(response, 400, "ops must be a whole number\n");
  } else {
    const result = BigInt.asUintN(64, iterate(BigInt(ops)));
    sendText(response, 200, `${result.toString(16).padStart(16, "0")}\n`);
  }
}

function route(request, response) {
  const { method, url } = request;
  const mark = url.indexOf("?");
  const path = mark < 0 ? url : url.slice(0, mark);
  if (method !== "GET" && method !== "HEAD") {
    notFound(response);
  } else if (path === "/hello") {
    hello(response);
  } else if (path.startsWith("/div/")) {
    div(response, path.slice("/div/".length));
  } else if (path === "/work" || path.startsWith("/work/")) {
    work(response, mark < 0 ? "" : url.slice(mark + 1));
  } else if (options.static && path.startsWith("/static/")) {
    // As in Express, because Node has no file server.
    send(request, path.slice("/static".length), { root: options.static }).pipe(response);
  } else {
    notFound(response);
  }
}

function serve() {
  const colon = options.listen.lastIndexOf(":");
  const [host, port] = [options.listen.slice(0, colon), Number(options.listen.slice(colon + 1))];
  http.createServer(SETTINGS, route).listen({ host, port, backlog: 4096 });
}

if (cluster.isPrimary && Number(options.threads) > 1) {
  for (let count = 0; count < Number(options.threads); count++) {
    cluster.fork();
  }
  cluster.on("exit", () => process.exit(1));
} else {
  serve();
}
