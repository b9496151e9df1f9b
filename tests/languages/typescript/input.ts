import { readFileSync } from 'fs';
const numbers: number[] = readFileSync(0, 'utf8').split('\n').filter(Boolean).map(Number);
console.log(process.argv.slice(2), process.env.GREETING, numbers.reduce((a, b) => a + b, 0));
process.exit(4);
