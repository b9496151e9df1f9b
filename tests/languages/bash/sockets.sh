# The network is there as far as loopback goes: a server, a client through /dev/tcp.
python3 - <<'PY' &
import socket
server = socket.create_server(("127.0.0.1", 8471))
peer, _ = server.accept()
peer.sendall(peer.recv(100).upper())
peer.close()
PY
for _ in $(seq 50); do { exec 3<>/dev/tcp/127.0.0.1/8471; } 2>/dev/null && break; sleep 0.1; done
echo hello >&3; cat <&3; wait
