//! The first call of Java, which checks that classes and library belong together, and leaves an exception for times of need.

use crate::bytes;
use crate::failure::{Failure, Result};
use crate::guard::native;
use jni::objects::{JByteArray, JThrowable};
use jni::refs::Global;
use jni::strings::JNIString;
use jni::{Env, jni_sig, jni_str};
use std::sync::OnceLock;

/// What is thrown where no other exception can be made. Java makes it while there is heap.
static SPARE: OnceLock<Global<JThrowable<'static>>> = OnceLock::new();

native! {
    /// Takes the spare exception, and returns the version of the library. Throws if the method is missing by which the library throws.
    fn Java_io_github_braidb_Native_start<'local>(env, spare: JThrowable<'local>) -> JByteArray<'local> {
        let spare = env.new_global_ref(spare)?;
        // A class is initialised once, so no spare exception is there yet.
        let _ = SPARE.set(spare);
        find_raise(env)?;
        Ok(bytes::give(env, env!("CARGO_PKG_VERSION").as_bytes())?)
    }
}

/// Fails, with an exception, if the class `Native` lacks its method `raise`.
fn find_raise(env: &mut Env<'_>) -> Result<()> {
    let class = env.find_class(jni_str!("io/github/braidb/Native"))?;
    match env.get_static_method_id(&class, jni_str!("raise"), jni_sig!("([B[B[BJ)V")) {
        Ok(_) => Ok(()),
        Err(error) => {
            let message = format!(
                "the class io.github.braidb.Native lacks its method raise, without which BraidDB cannot throw; keep it as the rule in \
                 META-INF/proguard/braidb.pro says: {error}"
            );
            env.throw_new(jni_str!("java/lang/UnsatisfiedLinkError"), JNIString::from(message))?;
            Err(Failure::from(error))
        }
    }
}

/// Throws the spare exception, if there is one.
pub fn throw_spare(env: &mut Env<'_>) {
    if let Some(spare) = SPARE.get() {
        // The caller asks whether the exception is there.
        let _ = env.throw(spare);
    }
}
