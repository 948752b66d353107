package org.apache.kafka.streams.state.internals;

/** Kafka's own tests, on stores that keep in memory what no commit has. */
public class TransactionalWindowStoreTest extends BraidWindowStoreTest {
    @Override
    boolean isTransactional() {
        return true;
    }
}
