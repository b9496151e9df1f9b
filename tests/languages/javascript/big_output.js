for (let i = 0; i < 20000; i++) {
  console.log('line', i, 'x'.repeat(40));
  if (i % 10 === 0) console.error('error', i);
}
