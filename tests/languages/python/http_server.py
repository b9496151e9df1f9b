# A server of the standard library and its client, over loopback, in both address families.
import http.server, json, socket, threading, urllib.error, urllib.request

class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({"sum": sum(body)}).encode())
    def do_GET(self):
        self.send_error(404)
    def log_message(self, *args):
        pass

server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
url = "http://127.0.0.1:%d/" % server.server_port
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
print(opener.open(url, data=b"[1, 2, 3]").read().decode())
try:
    opener.open(url)
except urllib.error.HTTPError as error:
    print(error.code)
server.shutdown()
print(socket.getaddrinfo("localhost", 80, socket.AF_INET, socket.SOCK_STREAM)[0][4])
