package io.github.braidb;

import java.util.LinkedHashMap;
import java.util.Map;

/** What a database holds, and what it did since it was opened. The numbers do not change any more. */
public final class Stats {
    private final Map<String, Long> figures;
    private final String json;

    /** Statistics of what the native library gives: lines of a name and a number, an empty line, and JSON. */
    Stats(String text) {
        int end = text.indexOf("\n\n");
        String lines = text.substring(0, end);
        Map<String, Long> figures = new LinkedHashMap<>();
        lines.lines().forEach(line -> {
            int space = line.indexOf(' ');
            figures.put(line.substring(0, space), Long.parseUnsignedLong(line.substring(space + 1)));
        });
        this.figures = java.util.Collections.unmodifiableMap(figures);
        json = text.substring(end + 2);
    }

    /**
     * A statistic that is one number. Names that end in {@code _bytes} count bytes, and those that end in {@code _total} count from the open.
     *
     * @param name the name, such as {@code "memory_bytes"}
     * @return the number
     * @throws IllegalArgumentException if there is no such statistic
     */
    public long get(String name) {
        Long figure = figures.get(name);
        if (figure == null) {
            throw new IllegalArgumentException("there is no statistic " + name + "; figures() has all names");
        }
        return figure;
    }

    /**
     * All statistics that are one number, by their names.
     *
     * @return a map that cannot be changed
     */
    public Map<String, Long> figures() {
        return figures;
    }

    /**
     * All statistics, those of families, levels, logs and tiers included.
     *
     * @return an object of JSON
     */
    public String json() {
        return json;
    }
}
