package io.github.braidb.streams;

import org.apache.kafka.streams.DslStoreFormat;

/** What stands before a value in a store's bytes. */
enum Format {
    PLAIN,
    TIMESTAMPED,
    HEADERS;

    /** The format that the topology asks for. Where it asks for none, values have a timestamp, as in the built-in stores. */
    static Format of(DslStoreFormat format) {
        return format == null ? TIMESTAMPED : valueOf(format.name());
    }
}
