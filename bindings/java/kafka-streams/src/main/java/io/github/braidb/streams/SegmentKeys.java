package io.github.braidb.streams;

import java.nio.ByteBuffer;

/**
 * The keys of windows and sessions: a record's key, and a suffix of times. They are those of Kafka Streams' own stores, since changelogs have
 * them.
 */
enum SegmentKeys {
    /** A window: its start, and a number that tells duplicates apart. */
    WINDOW(Long.BYTES + Integer.BYTES) {
        @Override
        long timestamp(byte[] key) {
            return start(key);
        }

        @Override
        byte[] lowSuffix(long from) {
            return ByteBuffer.allocate(suffixBytes).putLong(from).array();
        }

        @Override
        byte[] highSuffix(long to, long last) {
            return ByteBuffer.allocate(suffixBytes).putLong(Math.min(to, last)).putInt(Integer.MAX_VALUE).array();
        }

        @Override
        boolean isWithin(byte[] key, long from, long to) {
            long start = start(key);
            return start >= from && start <= to;
        }

        @Override
        long start(byte[] key) {
            return ByteBuffer.wrap(key).getLong(key.length - suffixBytes);
        }
    },

    /** A session: its end, and its start. */
    SESSION(2 * Long.BYTES) {
        @Override
        long timestamp(byte[] key) {
            return ByteBuffer.wrap(key).getLong(key.length - suffixBytes);
        }

        @Override
        byte[] lowSuffix(long from) {
            return ByteBuffer.allocate(suffixBytes).putLong(from).array();
        }

        @Override
        byte[] highSuffix(long to, long last) {
            return ByteBuffer.allocate(suffixBytes).putLong(last).putLong(Long.MAX_VALUE).array();
        }

        @Override
        boolean isWithin(byte[] key, long from, long to) {
            return timestamp(key) >= from && start(key) <= to;
        }

        @Override
        long start(byte[] key) {
            return ByteBuffer.wrap(key).getLong(key.length - Long.BYTES);
        }
    };

    /** Bytes behind a record's key. */
    final int suffixBytes;

    SegmentKeys(int suffixBytes) {
        this.suffixBytes = suffixBytes;
    }

    /** The time that decides in which segment an entry lies: a window's start, or a session's end. */
    abstract long timestamp(byte[] key);

    /** The start of a window or session. */
    abstract long start(byte[] key);

    /** The smallest suffix of entries from a time on. */
    abstract byte[] lowSuffix(long from);

    /**
     * The largest suffix of entries that {@link #isWithin} a time.
     *
     * @param to the latest start
     * @param last the last time of the segment
     */
    abstract byte[] highSuffix(long to, long last);

    /** Whether a window starts between two times, or a session ends no earlier than {@code from} and starts no later than {@code to}. */
    abstract boolean isWithin(byte[] key, long from, long to);

    static byte[] ofWindow(byte[] key, long start, int number) {
        return ByteBuffer.allocate(key.length + WINDOW.suffixBytes).put(key).putLong(start).putInt(number).array();
    }

    static byte[] ofSession(byte[] key, long start, long end) {
        return ByteBuffer.allocate(key.length + SESSION.suffixBytes).put(key).putLong(end).putLong(start).array();
    }
}
