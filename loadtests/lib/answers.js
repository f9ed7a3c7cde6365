// What the service must answer, worked out in another way than the service does it.

/** Half of a decimal number, exact: BigInt counts its smallest digit. */
export function half(n) {
  const [whole, fraction = ''] = n.split('.');
  const halved = String(BigInt(whole + fraction) * 5n).padStart(fraction.length + 2, '0');
  const point = halved.length - fraction.length - 1;
  const rest = halved.slice(point).replace(/0+$/, '');
  return rest === '' ? halved.slice(0, point) : `${halved.slice(0, point)}.${rest}`;
}

const word = (value) => BigInt.asUintN(64, value);

/**
 * The state of Knuth's MMIX generator after `ops` steps from 1, as 16 hexadecimal digits. A step
 * is x → ax + c; two of them are again of that form, so that steps can be doubled.
 */
export function work(ops) {
  let [a, c] = [6364136223846793005n, 1442695040888963407n];
  let state = 1n;
  for (let left = ops; left > 0; left = Math.floor(left / 2)) {
    if (left % 2 === 1) {
      state = word(state * a + c);
    }
    [a, c] = [word(a * a), word(c * a + c)];
  }
  return state.toString(16).padStart(16, '0');
}
