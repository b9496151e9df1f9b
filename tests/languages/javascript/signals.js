process.on('SIGUSR2', () => {
  console.log('SIGUSR2');
  process.on('exit', (code) => console.log('exit', code));
  setTimeout(() => { process.exitCode = 3; clearInterval(timer); }, 10);
});
const timer = setInterval(() => {}, 1000);
process.kill(process.pid, 'SIGUSR2');
