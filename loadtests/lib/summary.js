// The end of every scenario.

import { summaryFile } from './settings.js';

/** Writes everything that k6 counted as JSON, instead of k6's own text. */
export function handleSummary(data) {
  const text = JSON.stringify(data);
  // On standard output, use a separate line, which can be found in a container's log.
  return { [summaryFile]: summaryFile === 'stdout' ? `\n${text}\n` : text };
}

/**
 * Like `handleSummary`, with additional data of this scenario. `tell(metrics)` returns `figures` by part
 * (`all` is the entire run) and name, the texts `notes`, and `via`: `direct` without a gateway.
 */
export function handleSummaryWith(tell) {
  return (data) => handleSummary({ ...data, ...tell(data.metrics) });
}

/** Returns a statistic of a metric, NaN if nothing was counted. */
export function statistic(metrics, name, key) {
  const values = (metrics[name] || { values: {} }).values;
  return key in values ? values[key] : NaN;
}

/** Returns a figure, or nothing if its value is unknown. */
export function figure(name, value, unit) {
  return Number.isFinite(value) ? { [name]: { value, unit } } : {};
}
