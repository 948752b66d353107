//! Errors of the engine as exceptions of the class `io.github.braidb.BraidException`.

use crate::bytes;
use braidb::Error;
use braidb_bindings::code::{Code, place};
use braidb_bindings::settings::Refused;
use braidb_ffi::panics::Panicked;
use jni::errors::JniError;
use jni::objects::{JByteArray, JClass, JValue};
use jni::strings::JNIString;
use jni::{Env, jni_sig, jni_str};
use std::io;
use std::os::unix::ffi::OsStrExt;

/// Words of the engine's messages, and what they are with the calls of Java.
const WORDS: [(&str, &str); 6] = [
    (
        "unless the option `create_if_missing` is off (`braidb put` creates one too)",
        "unless `Options.createIfMissing(false)` is set",
    ),
    ("open the database to read", "open the database by `BraidDb.openReadOnly`"),
    ("open it to write", "open it by `BraidDb.open` to write"),
    ("create it first", "`db.family(name)` creates it"),
    ("`Options::slow_path`", "`Options.slowPath`"),
    ("`slow_path`", "`Options.slowPath`"),
];

/// Why a native method failed.
#[derive(Clone, Debug)]
pub enum Failure {
    Engine(Error),
    /// The arguments do not fit, or what the call needs is gone: a code and the message.
    Told(Code, String),
    /// A call into the JVM failed.
    Jvm(String),
    /// The heap, or the memory of the process, has no room for what the message names.
    NoMemory(&'static str),
}

/// The result of a native method.
pub type Result<T> = std::result::Result<T, Failure>;

impl Failure {
    /// The caller passed something that the method does not take.
    pub fn invalid(message: impl Into<String>) -> Failure {
        Failure::Told(Code::INVALID, message.into())
    }

    /// The caller uses something that was closed.
    pub fn closed(message: impl Into<String>) -> Failure {
        Failure::Told(Code::CLOSED, message.into())
    }

    /// The process could not register for forks, so no database can be opened.
    pub fn unregistered(error: io::Error) -> Failure {
        Failure::Told(Code::IO, format!("could not register for forks: {error}"))
    }

    /// Throws the exception, by the method `raise` of the class `Native`. An exception that is under way stays. After an `Err` there may be no
    /// exception.
    #[cold]
    pub fn throw(self, env: &mut Env<'_>, class: &JClass<'_>) -> jni::errors::Result<()> {
        if env.exception_check() {
            return Ok(());
        }
        if let Failure::NoMemory(message) = self {
            return env.throw_new(jni_str!("java/lang/OutOfMemoryError"), JNIString::from(message));
        }
        let (code, message) = match &self {
            Failure::Engine(error) => (Code::of(error), in_java(&error.to_string())),
            Failure::Told(code, message) => (*code, message.clone()),
            Failure::Jvm(message) => (Code::OTHER, format!("a call into the JVM failed: {message}")),
            Failure::NoMemory(message) => (Code::OTHER, (*message).to_owned()),
        };
        let (path, offset) = match &self {
            Failure::Engine(error) => place(error),
            _ => (None, 0),
        };
        let word = bytes::give(env, code.word().as_bytes())?;
        let message = bytes::give(env, message.as_bytes())?;
        let path = match path {
            Some(path) => bytes::give(env, path.as_os_str().as_bytes())?,
            None => JByteArray::default(),
        };
        let arguments = [
            JValue::Object(&word),
            JValue::Object(&message),
            JValue::Object(&path),
            JValue::Long(offset.cast_signed()),
        ];
        match env.call_static_method(class, jni_str!("raise"), jni_sig!("([B[B[BJ)V"), &arguments) {
            Ok(_) | Err(jni::errors::Error::JavaException) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

impl From<Error> for Failure {
    #[cold]
    fn from(error: Error) -> Failure {
        Failure::Engine(error)
    }
}

impl From<Refused> for Failure {
    fn from(refused: Refused) -> Failure {
        let hint = match refused {
            Refused::Unknown { .. } => "; `Options.names()` lists those that there are",
            Refused::Value { .. } => "",
        };
        Failure::invalid(format!("{refused}{hint}"))
    }
}

impl From<Panicked> for Failure {
    fn from(panicked: Panicked) -> Failure {
        Failure::Told(Code::PANIC, panicked.0)
    }
}

impl From<jni::errors::Error> for Failure {
    #[cold]
    fn from(error: jni::errors::Error) -> Failure {
        match error {
            jni::errors::Error::JniCall(JniError::NoMemory) => {
                Failure::NoMemory("the Java heap has no room for the result of a call of BraidDB")
            }
            error => Failure::Jvm(error.to_string()),
        }
    }
}

/// The message with the names of Java's calls.
fn in_java(message: &str) -> String {
    WORDS.iter().fold(message.to_owned(), |message, (rust, java)| message.replace(rust, java))
}
