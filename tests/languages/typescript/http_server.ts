import * as http from 'http';
import type { AddressInfo } from 'net';
const server: http.Server = http.createServer((request: http.IncomingMessage, response: http.ServerResponse) => {
  response.writeHead(request.url === '/' ? 200 : 404, { 'content-type': 'application/json' });
  response.end(JSON.stringify({ url: request.url }));
});
await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
const port = (server.address() as AddressInfo).port;
for (const name of ['/', '/none']) {
  const answer: Response = await fetch(`http://127.0.0.1:${port}${name}`);
  console.log(answer.status, await answer.json());
}
server.close();
server.closeAllConnections();
