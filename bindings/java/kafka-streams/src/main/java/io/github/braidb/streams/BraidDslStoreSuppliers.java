package io.github.braidb.streams;

import org.apache.kafka.streams.kstream.EmitStrategy;
import org.apache.kafka.streams.state.DslKeyValueParams;
import org.apache.kafka.streams.state.DslSessionParams;
import org.apache.kafka.streams.state.DslStoreSuppliers;
import org.apache.kafka.streams.state.DslWindowParams;
import org.apache.kafka.streams.state.KeyValueBytesStoreSupplier;
import org.apache.kafka.streams.state.SessionBytesStoreSupplier;
import org.apache.kafka.streams.state.WindowBytesStoreSupplier;

/**
 * Has all stores of the DSL be stores of BraidDB, by one property of the application.
 *
 * <pre>{@code
 * properties.put(StreamsConfig.DSL_STORE_SUPPLIERS_CLASS_CONFIG, BraidDslStoreSuppliers.class);
 * }</pre>
 *
 * <p>Versioned stores, and stores that the application names by {@code Stores}, stay what they are. {@link BraidStores} has stores for those.
 */
public final class BraidDslStoreSuppliers implements DslStoreSuppliers {
    /** Called by Kafka Streams. */
    public BraidDslStoreSuppliers() {}

    @Override
    public KeyValueBytesStoreSupplier keyValueStore(DslKeyValueParams params) {
        return KeyValueSupplier.of(params.name(), Format.of(params.dslStoreFormat()));
    }

    @Override
    public WindowBytesStoreSupplier windowStore(DslWindowParams params) {
        return WindowSupplier.of(
                params.name(), Format.of(params.dslStoreFormat()), params.retentionPeriod().toMillis(),
                params.windowSize().toMillis(), params.retainDuplicates(),
                isFinal(params.emitStrategy()));
    }

    @Override
    public SessionBytesStoreSupplier sessionStore(DslSessionParams params) {
        return SessionSupplier.of(
                params.name(), Format.of(params.storeFormat()), params.retentionPeriod().toMillis(),
                isFinal(params.emitStrategy()));
    }

    /** Whether the topology emits windows and sessions once they are closed. */
    private static boolean isFinal(EmitStrategy strategy) {
        return strategy.type() == EmitStrategy.StrategyType.ON_WINDOW_CLOSE;
    }
}
