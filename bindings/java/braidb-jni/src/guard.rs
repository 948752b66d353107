//! What stands around the body of each native method: an error or a panic becomes an exception of Java.

use crate::failure::Result;
use braidb_ffi::panics;
use jni::objects::JClass;
use jni::{Env, EnvUnowned, Outcome};

/// Declares a native method of the class `io.github.braidb.Native`.
macro_rules! native {
    (
        $(#[$doc:meta])*
        fn $symbol:ident<$local:lifetime>($env:ident $(, $argument:ident: $type:ty)* $(,)?) -> $returned:ty $body:block
    ) => {
        $(#[$doc])*
        #[allow(non_snake_case, reason = "the JVM finds native methods by such names")]
        #[unsafe(no_mangle)]
        pub extern "system" fn $symbol<$local>(
            mut unowned: jni::EnvUnowned<$local>,
            class: jni::objects::JClass<$local>,
            $($argument: $type,)*
        ) -> $returned {
            crate::guard::run(&mut unowned, &class, stringify!($symbol), |$env| $body)
        }
    };
}

pub(crate) use native;

/// Runs the body of a native method. After an exception the method returns 0, null or nothing, and Java does not see it.
pub fn run<'local, T: Default>(
    unowned: &mut EnvUnowned<'local>,
    class: &JClass<'local>,
    function: &'static str,
    body: impl FnOnce(&mut Env<'local>) -> Result<T>,
) -> T {
    let outcome = unowned.with_env_no_catch(|env| -> jni::errors::Result<T> {
        match panics::attempt(function, || body(env)) {
            Ok(value) => Ok(value),
            Err(failure) => failure.throw(env, class).map(|()| T::default()),
        }
    });
    match outcome.into_outcome() {
        Outcome::Ok(value) => value,
        // The JVM had no memory for the exception, and has thrown an error of its own.
        Outcome::Err(_) | Outcome::Panic(_) => T::default(),
    }
}
