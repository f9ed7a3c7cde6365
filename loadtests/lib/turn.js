// Many virtual users that do the same thing in the same moment.

import { sleep } from 'k6';

/** When the first turn is: all virtual users should be there by then. To be called in setup(). */
export function firstTurn(inSeconds) {
  return Date.now() + 1000 * inSeconds;
}

/** Waits for a moment; users that come later do not wait. */
export function until(moment) {
  sleep(Math.max(0, (moment - Date.now()) / 1000));
}
