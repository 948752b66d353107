//! What a database tells about itself: statistics, and a check of all its bytes.

use crate::bytes;
use crate::guard::native;
use crate::home::Home;
use braidb_bindings::reports;
use jni::objects::JByteArray;
use jni::sys::jlong;

native! {
    /// All statistics of one moment: lines `NAME NUMBER` for those that are one number, an empty line, and all as JSON.
    fn Java_io_github_braidb_Native_statistics<'local>(env, home: jlong) -> JByteArray<'local> {
        let stats = Home::lent(home)?.opened.db.stats();
        let figures = reports::figures(&stats).into_iter();
        let lines: String = figures.map(|(name, number)| format!("{name} {number}\n")).collect();
        Ok(bytes::give(env, format!("{lines}\n{}", reports::statistics(&stats)).as_bytes())?)
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
