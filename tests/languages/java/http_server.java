import com.sun.net.httpserver.HttpServer;
import java.net.*;
import java.net.http.*;

public class Web {
    public static void main(String[] args) throws Exception {
        HttpServer server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
        server.createContext("/upper", exchange -> {
            byte[] body = new String(exchange.getRequestBody().readAllBytes(), "UTF-8").toUpperCase().getBytes("UTF-8");
            exchange.sendResponseHeaders(200, body.length);
            exchange.getResponseBody().write(body);
            exchange.close();
        });
        server.start();
        HttpClient client = HttpClient.newHttpClient();
        for (String path : new String[] {"/upper", "/none"}) {
            URI uri = URI.create("http://127.0.0.1:" + server.getAddress().getPort() + path);
            HttpResponse<String> answer = client.send(HttpRequest.newBuilder(uri).POST(HttpRequest.BodyPublishers.ofString("grüße")).build(),
                HttpResponse.BodyHandlers.ofString());
            System.out.println(answer.statusCode() + " " + (answer.statusCode() == 200 ? answer.body() : ""));
        }
        server.stop(0);
    }
}
