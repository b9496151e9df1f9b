// An ECMAScript module: import, top-level await, promises of fs.
import { mkdtemp, readFile, readdir, rm, symlink, writeFile } from 'node:fs/promises';
import { createReadStream, createWriteStream, existsSync, mkdirSync, statSync } from 'node:fs';
import { pipeline } from 'node:stream/promises';
import { createGunzip, createGzip } from 'node:zlib';
import { join } from 'node:path';
import { tmpdir } from 'node:os';
const base = await mkdtemp(join(tmpdir(), 'x-'));
mkdirSync(join(base, 'a/b'), { recursive: true });
await writeFile(join(base, 'a/b/ä.txt'), 'grüße\n'.repeat(1000), { mode: 0o640 });
await symlink('a/b', join(base, 'link'));
console.log(await readdir(join(base, 'link')), (statSync(join(base, 'a/b/ä.txt')).mode & 0o777).toString(8));
await pipeline(createReadStream(join(base, 'a/b/ä.txt')), createGzip(), createWriteStream(join(base, 'z.gz')));
console.log(statSync(join(base, 'z.gz')).size < 200);
await pipeline(createReadStream(join(base, 'z.gz')), createGunzip(), createWriteStream(join(base, 'again')));
console.log((await readFile(join(base, 'again'), 'utf8')).length);
await rm(base, { recursive: true });
console.log(existsSync(base));
