// Permutations, big integers, typed arrays, a generator.
function* permutations(items, n = items.length) {
  if (n <= 1) yield items.slice();
  else for (let i = 0; i < n; i++) {
    yield* permutations(items, n - 1);
    const j = n % 2 ? 0 : i;
    [items[n - 1], items[j]] = [items[j], items[n - 1]];
  }
}
console.log([...permutations(['a', 'b', 'c'])].map((p) => p.join('')).sort().join(' '));
const sieve = new Uint8Array(100001);
let count = 0;
for (let i = 2; i < sieve.length; i++) {
  if (sieve[i]) continue;
  count++;
  for (let j = i * 2; j < sieve.length; j += i) sieve[j] = 1;
}
console.log(count, (2n ** 128n).toString(), [3, 1, 2].toSorted?.().length ?? 3);
