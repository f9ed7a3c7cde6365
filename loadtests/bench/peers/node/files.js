// Files by `send`, what Express serves them with: Node has no handler of its own.

import send from "send";

export function sendFile(request, response, root, path) {
  send(request, path, { root }).pipe(response);
}
