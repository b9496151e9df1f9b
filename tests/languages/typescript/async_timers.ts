const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
async function* ticks(n: number): AsyncGenerator<number> {
  for (let i = 0; i < n; i++) { await sleep(5); yield i; }
}
let timer: NodeJS.Timeout = setInterval(() => {}, 1000);
timer.unref();
for await (const tick of ticks(3)) console.log(tick);
const results = await Promise.allSettled([Promise.resolve(1), Promise.reject(new Error('no'))]);
console.log(results.map((r) => r.status));
