// What the service must answer, worked out in another way than the service does it.

/** Half of a decimal number, exact: BigInt counts its smallest digit. */
export function half(n) {
  const [whole, fraction = ''] = n.split('.');
  const halved = String(BigInt(whole + fraction) * 5n).padStart(fraction.length + 2, '0');
  const point = halved.length - fraction.length - 1;
  const rest = halved.slice(point).replace(/0+$/, '');
  return rest === '' ? halved.slice(0, point) : `${halved.slice(0, point)}.${rest}`;
}

/** The state of Knuth's MMIX generator after `ops` steps from 1, as 16 hexadecimal digits. */
export function work(ops) {
  let state = 1n;
  for (let step = 0; step < ops; step += 1) {
    state = BigInt.asUintN(64, state * 6364136223846793005n + 1442695040888963407n);
  }
  return state.toString(16).padStart(16, '0');
}
