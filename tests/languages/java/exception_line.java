public class Failing {
    static int inner(int[] values, int i) {
        return values[i];
    }

    public static void main(String[] args) {
        System.out.println("before");
        inner(new int[] {1, 2, 3}, 3);
    }
}
