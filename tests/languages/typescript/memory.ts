const buffers: Uint8Array[] = [];
for (let i = 0; i < 30; i++) buffers.push(new Uint8Array(10 << 20).fill(i));
console.log(buffers.reduce((sum, b) => sum + b.length, 0) >> 20);
