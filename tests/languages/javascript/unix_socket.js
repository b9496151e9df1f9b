const net = require('net'), fs = require('fs'), os = require('os'), path = require('path');
const file = path.join(fs.mkdtempSync(path.join(os.tmpdir(), 's-')), 'socket');
const server = net.createServer((peer) => peer.on('data', (data) => peer.end(data.toString().toUpperCase())));
server.listen(file, () => {
  const client = net.connect(file, () => client.write('grüße'));
  client.on('data', (data) => console.log(data.toString()));
  client.on('close', () => { server.close(); console.log(fs.existsSync(file)); });
});
