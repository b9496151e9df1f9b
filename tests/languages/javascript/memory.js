// 300 MiB outside of the heap, and as large a heap as the limit has room for.
const buffers = Array.from({ length: 30 }, (_, i) => Buffer.alloc(10 << 20, i));
console.log(buffers.reduce((sum, b) => sum + b.length, 0) >> 20, buffers[29][123]);
