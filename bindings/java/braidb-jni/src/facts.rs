//! What a database tells about itself: statistics, and a check of all its bytes.

use crate::bytes;
use crate::guard::native;
use crate::home::Home;
use braidb_bindings::reports;
use jni::objects::JByteArray;
use jni::sys::jlong;

native! {
    /// All statistics as JSON.
    fn Java_io_github_braidb_Native_statistics<'local>(env, home: jlong) -> JByteArray<'local> {
        let home = Home::lent(home)?;
        Ok(bytes::give(env, reports::statistics(&home.opened.db.stats()).to_string().as_bytes())?)
    }
}

native! {
    /// All statistics that are one number, as lines `NAME NUMBER`.
    fn Java_io_github_braidb_Native_figures<'local>(env, home: jlong) -> JByteArray<'local> {
        let home = Home::lent(home)?;
        let figures = reports::figures(&home.opened.db.stats());
        let lines: Vec<String> = figures.into_iter().map(|(name, number)| format!("{name} {number}")).collect();
        Ok(bytes::give(env, lines.join("\n").as_bytes())?)
    }
}

native! {
    /// Reads and checks every byte of the open database. Returns the report as JSON.
    fn Java_io_github_braidb_Native_verify<'local>(env, home: jlong) -> JByteArray<'local> {
        let home = Home::lent(home)?;
        let report = home.opened.db.verify()?;
        Ok(bytes::give(env, reports::verification(&report).to_string().as_bytes())?)
    }
}
