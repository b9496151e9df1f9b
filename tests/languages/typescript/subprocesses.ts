import { execFileSync, spawnSync, spawn, ChildProcess } from 'child_process';
console.log(execFileSync('sort', ['-rn'], { input: '3\n10\n2\n' }).toString().trim().split('\n'));
console.log(spawnSync('sh', ['-c', 'exit 7']).status);
const sleeper: ChildProcess = spawn('sleep', ['60']);
sleeper.on('exit', (code: number | null, signal: string | null) => console.log(code, signal));
sleeper.kill('SIGTERM');
