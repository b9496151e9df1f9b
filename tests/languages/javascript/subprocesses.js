const { execFileSync, spawn, spawnSync, fork } = require('child_process');
if (process.argv[2] === 'child') {
  process.on('message', (message) => { process.send({ doubled: message.n * 2 }); process.disconnect(); });
} else {
  console.log(execFileSync('sort', ['-rn'], { input: '3\n10\n2\n' }).toString().split('\n'));
  console.log(spawnSync('sh', ['-c', 'printf "a b" | wc -w; exit 7']).status);
  const sleeper = spawn('sleep', ['60']);
  sleeper.on('exit', (code, signal) => {
    console.log(code, signal);
    const child = fork(__filename, ['child']);
    child.on('message', (message) => console.log(message));
    child.send({ n: 21 });
  });
  sleeper.kill();
}
