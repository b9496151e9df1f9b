const readline = require('readline');
console.log(process.argv.slice(2), process.env.GREETING, process.env.EMPTY === '');
const lines = [];
readline.createInterface({ input: process.stdin }).on('line', (line) => lines.push(line))
  .on('close', () => console.log(lines.length, lines.filter(Boolean).map(Number).reduce((a, b) => a + b)));
