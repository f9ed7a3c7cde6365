// A few seconds of load: k6 run -e BASE_URL=http://127.0.0.1:8080 loadtest/smoke.js
import { check } from "k6";
import http from "k6/http";

export const options = {
  vus: 4,
  duration: __ENV.DURATION || "10s",
  thresholds: { checks: ["rate==1"], http_req_failed: ["rate==0"], http_req_duration: [`p(99)<${__ENV.P99_MS || 500}`] },
};

const url = __ENV.BASE_URL || "http://127.0.0.1:8080";

export default function () {
  const note = `${url}/notes/user-${__VU}`;
  const text = `visit ${__ITER}`;
  const json = { headers: { "content-type": "application/json" } };
  check(http.get(`${url}/`), { "front page": (reply) => reply.status === 200 });
  check(http.put(note, JSON.stringify({ text }), json), { written: (reply) => reply.status === 204 });
  check(http.get(note), { read: (reply) => reply.json("text") === text });
}
