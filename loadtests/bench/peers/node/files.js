// Files by `send`, as in Express, because Node has no file server.

import send from "send";

export function sendFile(request, response, root, path) {
  send(request, path, { root }).pipe(response);
}
