// Counts exceptions in a script.

import { Counter } from 'k6/metrics';

const errors = new Counter('script_errors');

/** Runs one iteration. k6 itself only logs an exception and continues. */
export function guarded(iteration) {
  try {
    return iteration();
  } catch (error) {
    errors.add(1);
    throw error;
  }
}

/** The same for an iteration that waits for promises. */
export async function guardedAsync(iteration) {
  try {
    await iteration();
  } catch (error) {
    errors.add(1);
    throw error;
  }
}
