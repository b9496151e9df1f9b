import java.text.Normalizer;
import java.time.*;

public class Größe {
    public static void main(String[] args) {
        String s = "e\u0301 Straße 日本 👩";
        System.out.println(s.length() + " " + s.codePoints().count() + " " + s.toUpperCase() + " " + Normalizer.normalize(s, Normalizer.Form.NFC).length());
        for (String zone : new String[] {"Europe/Berlin", "Asia/Kolkata"})
            System.out.println(Instant.ofEpochSecond(1730000000).atZone(ZoneId.of(zone)));
        System.out.println(Duration.between(LocalDate.of(2024, 2, 1).atStartOfDay(), LocalDate.of(2024, 3, 1).atStartOfDay()).toDays());
    }
}
