import java.util.*;

public class TooMuch {
    public static void main(String[] args) {
        List<byte[]> blocks = new ArrayList<>();
        try {
            while (true) blocks.add(new byte[8 << 20]);
        } catch (OutOfMemoryError error) {
            int n = blocks.size();
            blocks = null;
            System.out.println("caught " + (n > 30));
        }
    }
}
