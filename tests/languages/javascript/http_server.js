const http = require('http');
const server = http.createServer((request, response) => {
  let body = '';
  request.on('data', (chunk) => { body += chunk; });
  request.on('end', () => {
    response.writeHead(request.url === '/sum' ? 200 : 404, { 'content-type': 'application/json' });
    response.end(JSON.stringify({ method: request.method, sum: body ? JSON.parse(body).reduce((a, b) => a + b) : 0 }));
  });
});
server.listen(0, '127.0.0.1', async () => {
  const url = `http://127.0.0.1:${server.address().port}`;
  const answer = await fetch(`${url}/sum`, { method: 'POST', body: '[1,2,3]' });
  console.log(answer.status, await answer.json());
  console.log((await fetch(`${url}/none`)).status);
  server.close();
  server.closeAllConnections();
});
