// A few seconds of load: k6 run -e BASE_URL=http://127.0.0.1:8080 loadtest/smoke.js
import { check } from "k6";
import ws from "k6/ws";

export const options = {
  vus: 4,
  duration: __ENV.DURATION || "10s",
  thresholds: { checks: ["rate==1"], ws_connecting: [`p(99)<${__ENV.P99_MS || 500}`] },
};

const url = (__ENV.BASE_URL || "http://127.0.0.1:8080").replace("http", "ws");

export default function () {
  const text = `member ${__VU}, visit ${__ITER}`;
  let heard = false;
  const reply = ws.connect(`${url}/room`, null, (socket) => {
    socket.on("open", () => socket.send(text));
    socket.on("message", (message) => {
      heard = heard || message === text;
      if (heard) socket.close();
    });
    socket.setTimeout(() => socket.close(), 5000);
  });
  check(reply, { upgraded: (upgrade) => upgrade && upgrade.status === 101 });
  check(heard, { heard: (own) => own });
}
