package io.github.braidb.streams;

import io.github.braidb.BraidException;
import io.github.braidb.Range;
import java.util.Arrays;
import java.util.Iterator;
import java.util.List;
import java.util.NoSuchElementException;
import java.util.function.Predicate;
import java.util.function.UnaryOperator;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.errors.InvalidStateStoreException;
import org.apache.kafka.streams.state.KeyValueIterator;

/**
 * Entries of a store in one or more ranges, one range after the other.
 *
 * <p>One thread at a time uses it. The close of its store closes it too, from any thread.
 */
final class BraidIterator implements KeyValueIterator<Bytes, byte[]> {
    /** No range that waits. */
    private static final Iterator<Range> NONE = List.<Range>of().iterator();

    private final BraidStore store;
    private final View view;
    private final boolean isBackward;

    /** Bytes in front of the store's own key. */
    private final int headBytes;

    /** The ranges that come after the one of {@link #walk}. */
    private final Iterator<Range> ranges;

    /** Which of the store's own keys to show. */
    private final Predicate<byte[]> filter;

    /** Gives the value for one of the store's own keys, where the ranges are those of an index. Null otherwise. */
    private final UnaryOperator<byte[]> values;

    /** Whether a use after the close is an error. Otherwise the entries just end. */
    private final boolean isStrict;

    private View.Walk walk;
    private KeyValue<Bytes, byte[]> next;

    /** Set before the monitor is taken, so that a long search for the next entry ends. */
    private volatile boolean isClosed;

    private BraidIterator(
            BraidStore store, View view, boolean isBackward, int headBytes, Iterator<Range> ranges,
            Predicate<byte[]> filter, UnaryOperator<byte[]> values, boolean isStrict) {
        this.store = store;
        this.view = view;
        this.isBackward = isBackward;
        this.headBytes = headBytes;
        this.ranges = ranges;
        this.filter = filter;
        this.values = values;
        this.isStrict = isStrict;
    }

    /** The entries of a range at this moment. */
    static BraidIterator of(BraidStore store, View view, Range range, boolean isBackward) {
        BraidIterator iterator =
                new BraidIterator(store, view, isBackward, Slot.HEAD_BYTES, NONE, key -> true, null, true);
        iterator.walk = store.guarded(() -> view.walk(range, isBackward));
        store.add(iterator);
        return iterator;
    }

    /**
     * The entries of ranges, each at the moment when the iterator comes to it.
     *
     * @param headBytes bytes in front of the store's own key
     * @param filter which of the store's own keys to show
     * @param values gives the value for one of the store's own keys, or null for one that has none any more, where the ranges are those of
     *     an index; null otherwise
     */
    static BraidIterator of(
            BraidStore store, View view, Iterator<Range> ranges, boolean isBackward, int headBytes,
            Predicate<byte[]> filter, UnaryOperator<byte[]> values) {
        BraidIterator iterator = new BraidIterator(store, view, isBackward, headBytes, ranges, filter, values, false);
        store.add(iterator);
        return iterator;
    }

    @Override
    public synchronized boolean hasNext() {
        if (next == null && !isClosed) {
            next = store.guarded(this::fetch);
        }
        if (isClosed && isStrict) {
            throw new InvalidStateStoreException("The iterator of the store " + store.name() + " was closed");
        }
        return next != null && !isClosed;
    }

    /** The next entry that the filter shows, or null. A close from another thread ends the search. */
    private KeyValue<Bytes, byte[]> fetch() {
        while (true) {
            while (walk != null && !isClosed && walk.next()) {
                byte[] key = walk.key();
                byte[] own = Arrays.copyOfRange(key, headBytes, key.length);
                byte[] value = !filter.test(own) ? null : values == null ? walk.value() : values.apply(own);
                if (value != null) {
                    return new KeyValue<>(Bytes.wrap(own), value);
                }
            }
            closeWalk();
            if (isClosed || !ranges.hasNext()) {
                return null;
            }
            walk = view.walk(ranges.next(), isBackward);
        }
    }

    @Override
    public synchronized KeyValue<Bytes, byte[]> next() {
        KeyValue<Bytes, byte[]> entry = peek();
        next = null;
        return entry;
    }

    @Override
    public synchronized Bytes peekNextKey() {
        return peek().key;
    }

    private KeyValue<Bytes, byte[]> peek() {
        if (!hasNext()) {
            throw new NoSuchElementException();
        }
        return next;
    }

    @Override
    public void close() {
        end();
        store.remove(this);
    }

    /** Closes the iterator, which the store has forgotten. */
    void end() {
        isClosed = true;
        synchronized (this) {
            next = null;
            closeWalk();
        }
    }

    private void closeWalk() {
        if (walk != null) {
            try {
                walk.close();
            } catch (BraidException error) {
                // The database was closed, which frees what the walk held.
            }
            walk = null;
        }
    }
}
