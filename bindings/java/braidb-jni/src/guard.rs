//! What stands around the body of each native method: an error or a panic becomes an exception of Java.
//!
//! A native method that failed always leaves an exception, since Java takes a return without one as success. Where the exception for a failure
//! cannot be made, for want of heap or after a panic, the spare one is thrown (`start`). Where the spare one is missing too, the JVM ends.

use crate::failure::{Failure, Result};
use crate::start;
use braidb_ffi::panics;
use jni::objects::JClass;
use jni::{Env, EnvUnowned, Outcome, jni_str};

/// The name of a panic while an exception is made. Tests plant one by it.
const THROW: &str = "Java_io_github_braidb_Native_throw";

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
            Err(failure) => {
                throw(env, class, failure);
                Ok(T::default())
            }
        }
    });
    match outcome.into_outcome() {
        Outcome::Ok(value) => value,
        // The closure returns `Ok` alone.
        Outcome::Err(_) | Outcome::Panic(_) => T::default(),
    }
}

/// Leaves an exception for a failure. `jni` clears exceptions that it turns into errors, so an `Err` of a call does not say that there is one.
#[cold]
fn throw(env: &mut Env<'_>, class: &JClass<'_>, failure: Failure) {
    let thrown = panics::attempt(THROW, || failure.throw(env, class).map_err(Failure::from));
    if env.exception_check() {
        return;
    }
    drop(thrown);
    start::throw_spare(env);
    if !env.exception_check() {
        env.fatal_error(jni_str!("BraidDB could not throw the exception for an error"));
    }
}
