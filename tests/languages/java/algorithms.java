import java.math.BigInteger;
import java.util.*;
import java.util.stream.*;

public class Algorithms {
    sealed interface Shape permits Circle, Square {}
    record Circle(double radius) implements Shape {}
    record Square(double side) implements Shape {}

    static double area(Shape shape) {
        if (shape instanceof Circle c) return Math.PI * c.radius() * c.radius();
        if (shape instanceof Square s) return s.side() * s.side();
        throw new AssertionError();
    }

    public static void main(String[] args) {
        System.out.printf(Locale.ROOT, "%.3f%n", Stream.of(new Circle(1), new Square(2)).mapToDouble(Algorithms::area).sum());
        System.out.println(IntStream.rangeClosed(1, 30).mapToObj(BigInteger::valueOf).reduce(BigInteger.ONE, BigInteger::multiply));
        Map<Integer, List<String>> byLength = Stream.of("fig", "apple", "pear", "kiwi")
            .collect(Collectors.groupingBy(String::length, TreeMap::new, Collectors.toList()));
        System.out.println(byLength);
        PriorityQueue<int[]> queue = new PriorityQueue<>(Comparator.comparingInt(a -> a[1]));
        queue.add(new int[] {1, 5});
        queue.add(new int[] {2, 3});
        System.out.println(queue.poll()[0] + " " + new Circle(2));
    }
}
