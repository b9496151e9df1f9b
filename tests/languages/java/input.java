import java.util.*;

public class Input {
    public static void main(String[] args) {
        System.out.println(Arrays.toString(args) + " " + System.getenv("GREETING"));
        Scanner in = new Scanner(System.in);
        long sum = 0;
        while (in.hasNextLong()) sum += in.nextLong();
        System.out.println(sum);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> System.out.println("leaving")));
        System.exit(4);
    }
}
