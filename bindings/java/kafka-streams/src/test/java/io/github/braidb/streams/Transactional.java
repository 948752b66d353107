package io.github.braidb.streams;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.processor.StateStoreContext;

/** Has a store keep in memory what no commit has, on a version of Kafka Streams that knows no such setting. */
public final class Transactional {
    private Transactional() {}

    /** A store that passes all calls on, and is told at its init that stores are transactional. */
    public static <S extends StateStore> S of(S store, Class<S> type) {
        return type.cast(Proxy.newProxyInstance(type.getClassLoader(), new Class<?>[] {type}, (proxy, method, arguments) -> {
            Object[] passed = arguments;
            if (method.getName().equals("init")) {
                passed = new Object[] {context((StateStoreContext) arguments[0]), arguments[1]};
            }
            return call(store, method, passed);
        }));
    }

    private static StateStoreContext context(StateStoreContext context) {
        Class<?> type = StateStoreContext.class;
        return (StateStoreContext) Proxy.newProxyInstance(
                type.getClassLoader(), new Class<?>[] {type}, (proxy, method, arguments) -> {
                    Object answer = call(context, method, arguments);
                    if (!method.getName().equals("appConfigs")) {
                        return answer;
                    }
                    BraidStore.canStage = true;
                    Map<Object, Object> configs = new HashMap<>((Map<?, ?>) answer);
                    configs.put(BraidStore.TRANSACTIONAL_CONFIG, true);
                    return configs;
                });
    }

    /** Calls a method, and throws what it throws. */
    public static Object call(Object target, java.lang.reflect.Method method, Object[] arguments) throws Throwable {
        try {
            return method.invoke(target, arguments);
        } catch (InvocationTargetException error) {
            throw error.getCause();
        }
    }
}
