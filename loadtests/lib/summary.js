// The end of every scenario.

import { summaryFile } from './settings.js';

/** Writes all that k6 counted as JSON, instead of k6's own text. */
export function handleSummary(data) {
  return { [summaryFile]: JSON.stringify(data) };
}
