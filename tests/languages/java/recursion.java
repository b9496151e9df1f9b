public class Deep {
    static int depth(int n) { return n == 0 ? 0 : 1 + depth(n - 1); }

    public static void main(String[] args) throws Exception {
        System.out.println(depth(5000));
        try { depth(100_000_000); } catch (StackOverflowError error) { System.out.println("overflow"); }
        Thread large = new Thread(null, () -> System.out.println(depth(500_000)), "large", 256 << 20);
        large.start();
        large.join();
    }
}
