import java.util.*;

public class Memory {
    public static void main(String[] args) {
        List<byte[]> blocks = new ArrayList<>();
        for (int i = 0; i < 300; i++) { byte[] b = new byte[1 << 20]; Arrays.fill(b, (byte) i); blocks.add(b); }
        System.out.println(blocks.size());
        for (int i = 0; i < 1000; i++) { byte[] garbage = new byte[1 << 20]; garbage[0] = 1; }
        System.out.println(blocks.get(299)[5]);
    }
}
