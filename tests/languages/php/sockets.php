<?php
// A server and a client over loopback in one process, and a pair of Unix sockets.
$server = stream_socket_server('tcp://127.0.0.1:0', $code, $message);
$client = stream_socket_client('tcp://' . stream_socket_get_name($server, false));
$peer = stream_socket_accept($server);
fwrite($client, "GET /hello HTTP/1.0\r\n\r\n");
[$method, $path] = explode(' ', fgets($peer));
fwrite($peer, "HTTP/1.0 200 OK\r\n\r\n$path");
fclose($peer);
echo explode("\r\n\r\n", stream_get_contents($client))[1], "\n";
[$left, $right] = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
fwrite($left, "grüße\n");
echo fgets($right);
