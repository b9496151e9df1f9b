const log = 'ERROR 2024-05-01 disk; ERROR 2024-05-03 net';
const found: string[] = [];
for (const match of log.matchAll(/ERROR (?<day>[\d-]+) (?<what>\w+)/g)) {
  const { day, what } = match.groups as { day: string; what: string };
  found.push(`${what}@${day}`);
}
console.log(found, 'naïve café'.replace(/\p{L}+/gu, (w: string) => w.toUpperCase()));
