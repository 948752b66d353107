package io.github.braidb.streams.bench;

import java.nio.ByteBuffer;
import java.util.SplittableRandom;

/** Keys of 16 bytes in no order, values of 100 bytes, and numbers as Zipf's law has them. */
final class Records {
    static final int KEY_BYTES = 16;
    static final int VALUE_BYTES = 100;

    /** The exponent of Zipf's law, 0.99, as YCSB has it. */
    private static final double SKEW = 0.99;

    private static final byte[] VALUE = new byte[VALUE_BYTES];

    static {
        new SplittableRandom(1).nextBytes(VALUE);
    }

    private Records() {}

    /** Different numbers have different keys, whose order tells nothing of the numbers. */
    static byte[] key(long number) {
        return ByteBuffer.allocate(KEY_BYTES).putLong(mixed(number)).putLong(number).array();
    }

    /** A bijection whose results look drawn. */
    private static long mixed(long number) {
        long mixed = (number ^ number >>> 31) * 0x9E3779B97F4A7C15L;
        mixed = (mixed ^ mixed >>> 29) * 0xD1342543DE82EF95L;
        return mixed ^ mixed >>> 32;
    }

    static byte[] value(long number) {
        byte[] value = VALUE.clone();
        ByteBuffer.wrap(value).putLong(number);
        return value;
    }

    static long number(byte[] value) {
        return ByteBuffer.wrap(value).getLong();
    }

    /** Draws numbers below {@code bound}, 0 most often. The distribution is exact: the sum of weights is searched. */
    static int[] skewed(int count, int bound, SplittableRandom random) {
        double[] sums = new double[bound];
        double sum = 0;
        for (int rank = 0; rank < bound; rank++) {
            sum += Math.pow(rank + 1.0, -SKEW);
            sums[rank] = sum;
        }
        int[] drawn = new int[count];
        for (int index = 0; index < count; index++) {
            int found = java.util.Arrays.binarySearch(sums, random.nextDouble(sum));
            drawn[index] = found < 0 ? -found - 1 : found;
        }
        return drawn;
    }
}
