// Worker threads that share memory, and promises that race.
const { Worker, isMainThread, parentPort, workerData } = require('worker_threads');
if (!isMainThread) {
  const cells = new Int32Array(workerData.shared);
  for (let i = 0; i < 1000; i++) Atomics.add(cells, 0, 1);
  parentPort.postMessage(workerData.id);
} else {
  const shared = new SharedArrayBuffer(4);
  const run = (id) => new Promise((resolve, reject) => {
    const worker = new Worker(__filename, { workerData: { shared, id } });
    worker.on('message', resolve).on('error', reject);
  });
  Promise.all([1, 2, 3].map(run)).then(async (ids) => {
    console.log(ids, new Int32Array(shared)[0]);
    const late = new Promise((resolve) => setTimeout(resolve, 60, 'late'));
    console.log(await Promise.race([late, new Promise((resolve) => setTimeout(resolve, 5, 'soon'))]));
    console.log((await Promise.allSettled([Promise.reject(new Error('no')), 1])).map((r) => r.status));
  });
}
