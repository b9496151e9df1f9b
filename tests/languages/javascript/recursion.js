const depth = (n) => n === 0 ? 0 : 1 + depth(n - 1);
console.log(depth(5000));
try { depth(1e7); } catch (error) { console.log(error instanceof RangeError, error.message); }
