package io.github.braidb;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;

/** Runs each static method without arguments of the classes that the command line names. */
final class Runner {
    private Runner() {}

    public static void main(String[] names) throws ReflectiveOperationException {
        int failures = 0;
        int tests = 0;
        for (String name : names) {
            for (Method method : Class.forName("io.github.braidb." + name).getDeclaredMethods()) {
                int modifiers = method.getModifiers();
                if (!Modifier.isStatic(modifiers) || Modifier.isPrivate(modifiers) || method.getParameterCount() > 0) {
                    continue;
                }
                tests++;
                try {
                    method.invoke(null);
                } catch (InvocationTargetException error) {
                    failures++;
                    System.err.println("FAILED " + name + "." + method.getName());
                    error.getCause().printStackTrace();
                }
            }
        }
        if (failures > 0 || tests == 0) {
            System.err.println(failures + " of " + tests + " tests failed");
            System.exit(1);
        }
        System.out.println("OK " + tests + " tests");
    }
}
