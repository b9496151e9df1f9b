// Modules of Node, top-level await, types of what they export.
import { promises as fs, existsSync } from 'fs';
import * as path from 'node:path';
import os from 'os';
const base: string = await fs.mkdtemp(path.join(os.tmpdir(), 'x-'));
await fs.mkdir(path.join(base, 'a', 'b'), { recursive: true });
await fs.writeFile(path.join(base, 'a', 'b', 'ä.txt'), 'grüße\n');
const text: string = await fs.readFile(path.join(base, 'a', 'b', 'ä.txt'), 'utf8');
console.log(text.trim(), (await fs.readdir(path.join(base, 'a'))).length, Buffer.from(text).length);
await fs.rm(base, { recursive: true });
console.log(existsSync(base));
