//! Opening and closing, and calls that take the path of a database that is not open.

use crate::bytes;
use crate::entries::unpack;
use crate::failure::{Failure, Result};
use crate::guard::native;
use crate::handles;
use crate::home::Home;
use braidb::Options;
use braidb_bindings::opened::Opened;
use braidb_bindings::{reports, settings};
use jni::objects::JByteArray;
use jni::sys::{jboolean, jlong};
use std::sync::Arc;

native! {
    /// Opens a database. `options` is a list of names and values.
    fn Java_io_github_braidb_Native_open<'local>(
        env,
        path: JByteArray<'local>,
        options: JByteArray<'local>,
        is_read_only: jboolean,
    ) -> jlong {
        let (path, packed) = (bytes::take(env, &path)?, bytes::take(env, &options)?);
        let options = self::options(&packed)?;
        let opened = Opened::new(Failure::unregistered, || {
            let path = bytes::path(&path);
            Ok::<_, Failure>(if is_read_only { options.open_read_only(path) } else { options.open(path) }?)
        })?;
        Ok(handles::give(Home::default_of(Arc::new(opened))?))
    }
}

native! {
    /// Closes the database of a home. The home itself stays until Java frees it.
    fn Java_io_github_braidb_Native_close<'local>(_env, home: jlong) -> () {
        Ok(handles::lent::<Home>(home).opened.close()?)
    }
}

native! {
    fn Java_io_github_braidb_Native_isClosed<'local>(_env, home: jlong) -> jboolean {
        Ok(handles::lent::<Home>(home).opened.is_closed())
    }
}

native! {
    fn Java_io_github_braidb_Native_freeHome<'local>(_env, home: jlong) -> () {
        handles::free::<Home>(home);
        Ok(())
    }
}

native! {
    /// The names of all options, one a line.
    fn Java_io_github_braidb_Native_optionNames<'local>(env) -> JByteArray<'local> {
        Ok(bytes::give(env, settings::NAMES.trim_end_matches('\0').as_bytes())?)
    }
}

native! {
    /// Reads and checks every byte of a database that is not open. Returns the report as JSON.
    fn Java_io_github_braidb_Native_verifyPath<'local>(
        env,
        path: JByteArray<'local>,
        options: JByteArray<'local>,
    ) -> JByteArray<'local> {
        let (path, packed) = (bytes::take(env, &path)?, bytes::take(env, &options)?);
        let report = self::options(&packed)?.verify(bytes::path(&path))?;
        Ok(bytes::give(env, reports::verification(&report).to_string().as_bytes())?)
    }
}

native! {
    fn Java_io_github_braidb_Native_destroy<'local>(env, path: JByteArray<'local>) -> () {
        let path = bytes::take(env, &path)?;
        Ok(Options::new().destroy(bytes::path(&path))?)
    }
}

/// The options of a list of names and values.
fn options(packed: &[u8]) -> Result<Options> {
    let mut options = Options::new();
    for pair in unpack(packed)?.chunks_exact(2) {
        options = settings::set(options, bytes::text(pair[0])?, bytes::text(pair[1])?)?;
    }
    Ok(options)
}
