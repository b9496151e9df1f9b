import java.io.*;
import java.nio.file.*;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.*;
import java.util.stream.*;
import java.util.zip.*;

public class Files1 {
    public static void main(String[] args) throws IOException {
        Path dir = Files.createTempDirectory("x");
        Path file = Files.createDirectories(dir.resolve("a/b")).resolve("ä.txt");
        Files.writeString(file, "grüße\n".repeat(1000));
        Files.setPosixFilePermissions(file, PosixFilePermissions.fromString("rw-r-----"));
        Files.createSymbolicLink(dir.resolve("a/link"), Path.of("b"));
        try (Stream<Path> walk = Files.walk(dir)) {
            System.out.println(walk.map(p -> dir.relativize(p).toString()).sorted().collect(Collectors.joining(" ")));
        }
        System.out.println(Files.readString(dir.resolve("a/link/ä.txt")).length() + " " + PosixFilePermissions.toString(Files.getPosixFilePermissions(file)));
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        try (GZIPOutputStream zip = new GZIPOutputStream(bytes)) { zip.write(new byte[1 << 20]); }
        System.out.println(bytes.size() < 2000);
        try (Stream<Path> walk = Files.walk(dir)) { walk.sorted(Comparator.reverseOrder()).forEach(p -> p.toFile().delete()); }
        System.out.println(Files.exists(dir));
    }
}
