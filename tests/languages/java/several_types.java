package org.example.several;

// public class InAComment { public static void main(
interface Greeter { String greet(String name); }

class Helper implements Greeter {
    static final String text = "public class InAString { /* ";
    public String greet(String name) { return "Hello, " + name + '"'; }
    void main() {}
}

/* the public type is neither the first, nor the one that has main */
public enum Colour { RED, GREEN }

class Start {
    public static void main(final String... args) {
        System.out.println(new Helper().greet("world") + " " + Colour.values().length + " " + Start.class.getName());
    }
}
