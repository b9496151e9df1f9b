import java.util.*;
import java.util.regex.*;

class Main {
    public static void main(String[] args) {
        Map<String, Integer> totals = new TreeMap<>();
        for (String line : "name,qty\nann,3\nbob,4\nann,5".lines().skip(1).toList()) {
            String[] cells = line.split(",");
            totals.merge(cells[0], Integer.parseInt(cells[1]), Integer::sum);
        }
        System.out.println(totals);
        Matcher m = Pattern.compile("(?<day>[\\d-]+) ERROR (?<what>\\w+)").matcher("2024-05-01 ERROR disk; 2024-05-03 ERROR net");
        while (m.find()) System.out.println(m.group("day") + " " + m.group("what"));
        System.out.println("""
            {
              "text": "block"
            }""");
    }
}
