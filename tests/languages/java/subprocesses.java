import java.util.concurrent.TimeUnit;

public class Subprocesses {
    public static void main(String[] args) throws Exception {
        Process sort = new ProcessBuilder("sort", "-rn").start();
        sort.getOutputStream().write("3\n10\n2\n".getBytes());
        sort.getOutputStream().close();
        System.out.println(new String(sort.getInputStream().readAllBytes()).lines().toList());
        System.out.println(new ProcessBuilder("sh", "-c", "exit 7").start().waitFor());
        Process sleep = new ProcessBuilder("sleep", "60").start();
        sleep.destroy();
        System.out.println(sleep.waitFor(100, TimeUnit.SECONDS) + " " + sleep.exitValue());
    }
}
