type Row = Record<string, string>;
const parse = (csv: string): Row[] => {
  const [head, ...lines] = csv.trim().split('\n').map((line) => line.split(','));
  return lines.map((cells) => Object.fromEntries(head.map((key, i) => [key, cells[i]])));
};
const rows = parse('name,qty\nann,3\nbob,4\nann,5\n');
const totals = new Map<string, number>();
for (const { name, qty } of rows) totals.set(name, (totals.get(name) ?? 0) + Number(qty));
console.log(JSON.stringify([...totals], null, 1));
const data = JSON.parse('{"a": {"b": [1, 2, 3]}}') as { a?: { b: number[] } };
console.log(data.a?.b.at(-1));
