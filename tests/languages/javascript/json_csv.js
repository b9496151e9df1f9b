const csv = 'name,qty\n"Smith, J.",3\n"says ""hi""",4\n';
const rows = csv.trim().split('\n').map((line) =>
  [...line.matchAll(/("([^"]|"")*"|[^,]*)(,|$)/g)].map((m) => m[1]).slice(0, 2)
    .map((cell) => cell.startsWith('"') ? cell.slice(1, -1).replaceAll('""', '"') : cell));
const [head, ...body] = rows;
const objects = body.map((row) => Object.fromEntries(head.map((key, i) => [key, row[i]])));
console.log(JSON.stringify(objects, null, 2));
console.log(JSON.parse('{"a":[1,2,{"b":null}]}', (key, value) => value === null ? 'none' : value).a[2]);
try { JSON.parse('{"a":'); } catch (error) { console.log(error.name); }
