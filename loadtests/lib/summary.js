// The end of every scenario.

import { summaryFile } from './settings.js';

/** Writes all that k6 counted as JSON, instead of k6's own text. */
export function handleSummary(data) {
  const text = JSON.stringify(data);
  // On standard output a line of its own, which can be found in a container's log.
  return { [summaryFile]: summaryFile === 'stdout' ? `\n${text}\n` : text };
}

/**
 * As `handleSummary`, with what only this scenario knows: `tell(metrics)` gives `figures`, by part
 * (`all` is the whole run) and name, the texts `notes`, and `via`: `direct` without a gateway.
 */
export function handleSummaryWith(tell) {
  return (data) => handleSummary({ ...data, ...tell(data.metrics) });
}

/** A statistic of a metric, NaN where nothing was counted. */
export function statistic(metrics, name, key) {
  const values = (metrics[name] || { values: {} }).values;
  return key in values ? values[key] : NaN;
}

/** A figure, unless its value is not known: then there is none. */
export function figure(name, value, unit) {
  return Number.isFinite(value) ? { [name]: { value, unit } } : {};
}
