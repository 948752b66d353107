/**
 * State stores of Kafka Streams in BraidDB. {@link io.github.braidb.streams.BraidDslStoreSuppliers} gives them to all of an application's
 * topology by one property, and {@link io.github.braidb.streams.BraidStores} gives single ones.
 *
 * <p>All stores of an application share one database. {@code docs/kafka-streams.md} says which place holds what, and what a crash leaves.
 */
package io.github.braidb.streams;
