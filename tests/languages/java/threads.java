import java.util.*;
import java.util.concurrent.*;
import java.util.concurrent.atomic.*;
import java.util.stream.*;

public class Threads {
    private static int slow;
    private static synchronized void add() { slow++; }

    public static void main(String[] args) throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(8);
        LongAdder fast = new LongAdder();
        List<Future<Integer>> futures = new ArrayList<>();
        for (int i = 0; i < 100; i++) {
            final int n = i;
            futures.add(pool.submit(() -> { fast.increment(); add(); return n * n; }));
        }
        int sum = 0;
        for (Future<Integer> future : futures) sum += future.get();
        pool.shutdown();
        System.out.println(sum + " " + fast + " " + slow + " " + pool.awaitTermination(10, TimeUnit.SECONDS));
        System.out.println(CompletableFuture.supplyAsync(() -> 20).thenCombine(CompletableFuture.supplyAsync(() -> 22), Integer::sum).get());
        System.out.println(IntStream.range(0, 1000).parallel().sum());
        Thread[] many = new Thread[50];
        for (int i = 0; i < 50; i++) (many[i] = new Thread(Threads::add)).start();
        for (Thread thread : many) thread.join();
        System.out.println(slow);
    }
}
