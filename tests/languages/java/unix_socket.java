import java.net.*;
import java.nio.ByteBuffer;
import java.nio.channels.*;
import java.nio.charset.StandardCharsets;
import java.nio.file.*;

public class Unix {
    public static void main(String[] args) throws Exception {
        Path dir = Files.createTempDirectory("s");
        UnixDomainSocketAddress address = UnixDomainSocketAddress.of(dir.resolve("socket"));
        try (ServerSocketChannel server = ServerSocketChannel.open(StandardProtocolFamily.UNIX)) {
            server.bind(address);
            Thread thread = new Thread(() -> {
                try (SocketChannel peer = server.accept()) {
                    peer.write(StandardCharsets.UTF_8.encode("grüße"));
                } catch (java.io.IOException e) {
                    e.printStackTrace();
                }
            });
            thread.start();
            try (SocketChannel client = SocketChannel.open(address)) {
                ByteBuffer buffer = ByteBuffer.allocate(100);
                while (client.read(buffer) >= 0) {}
                System.out.println(StandardCharsets.UTF_8.decode(buffer.flip()));
            }
            thread.join();
        }
        Files.delete(dir.resolve("socket"));
        Files.delete(dir);
    }
}
