// Random numbers that are the same in every run.

import { seed } from './settings.js';

/** Returns a generator of numbers from 0 up to 1 (mulberry32), which the seed determines. */
export function seeded(number) {
  let state = (number + Math.imul(seed - 1, 0x9e3779b9)) >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
}

/** Draws one of several items with the probability `share`; the shares add up to 1. */
export function drawn(choices, random) {
  let left = random();
  return choices.find(({ share }) => (left -= share) < 0) || choices[choices.length - 1];
}
