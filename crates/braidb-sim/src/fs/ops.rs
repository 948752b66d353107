//! Every call on the file system is an operation: counted, perhaps recorded, shown to a hook, perhaps made to fail.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

use braidb_storage::inline::SeededRandom;

use super::{EIO, ENOSPC, SimFs, errno};

/// The operations, one a method of the two traits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OpKind {
    CreateDir,
    Create,
    Open,
    Read,
    Append,
    Rewrite,
    Preallocate,
    Truncate,
    PunchHole,
    SyncData,
    SyncDir,
    Rename,
    Link,
    Unlink,
    List,
    Lock,
    Len,
    FreeSpace,
}

impl OpKind {
    /// Whether it changes what a crash may leave.
    pub fn mutates(self) -> bool {
        !matches!(self, OpKind::Open | OpKind::Read | OpKind::List | OpKind::Len | OpKind::FreeSpace)
    }
}

/// One operation, before it takes effect.
#[derive(Clone, Debug)]
pub struct Op {
    /// Its number on this file system, from 1.
    pub number: u64,
    pub kind: OpKind,
    /// The file or directory, by the name under which it was opened.
    pub path: Arc<Path>,
    /// The second name of a rename or link.
    pub to: Option<Arc<Path>>,
    /// Bytes read, appended or punched; the new length for `Preallocate` and `Truncate`.
    pub bytes: u64,
    /// Whether it needs space on the device that it does not have yet.
    pub takes_space: bool,
}

/// An error to inject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The device fails (`EIO`). Strikes every operation; an append may have written its first part, and a sync loses
    /// what it was to make stable.
    Io,
    /// The device is full (`ENOSPC`). Strikes whatever needs new space, so no append into preallocated space.
    Full,
    /// A sync of a file or directory fails (`EIO`), and what it was to make stable is lost: no later sync helps.
    Sync,
}

impl Fault {
    /// Whether it can strike `op`.
    pub fn strikes(self, op: &Op) -> bool {
        match self {
            Fault::Io => true,
            Fault::Full => op.takes_space,
            Fault::Sync => matches!(op.kind, OpKind::SyncData | OpKind::SyncDir),
        }
    }

    pub(super) fn error(self) -> io::Error {
        match self {
            Fault::Io | Fault::Sync => errno(EIO),
            Fault::Full => errno(ENOSPC),
        }
    }
}

/// How long a fault stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lasting {
    Once,
    ForEver,
}

/// Is called before each operation that changes something. It may use the file system; the operations that it makes do
/// not call it again.
pub type Hook = Box<dyn FnMut(&SimFs, &Op) + Send>;

/// Where the hook is.
#[derive(Default)]
pub(super) enum HookSlot {
    #[default]
    Empty,
    Waiting(Hook),
    Running,
}

/// An error that strikes an operation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Strike {
    pub fault: Fault,
    /// A random number, for what a failed append leaves.
    pub draw: u64,
}

/// Counts operations and knows what shall fail.
#[derive(Debug, Default)]
pub(super) struct Gate {
    pub counts: BTreeMap<OpKind, u64>,
    pub recorded: Option<Vec<Op>>,
    number: u64,
    plan: Option<Plan>,
    pub struck: u64,
}

#[derive(Debug)]
struct Plan {
    /// Operations that the fault could strike, still to pass.
    passing: u64,
    fault: Fault,
    lasting: Lasting,
    random: SeededRandom,
}

impl Gate {
    pub fn number(&self) -> u64 {
        self.number
    }

    pub fn enter(&mut self, kind: OpKind) -> u64 {
        self.number += 1;
        *self.counts.entry(kind).or_default() += 1;
        self.number
    }

    pub fn record(&mut self, op: &Op) {
        if let Some(recorded) = &mut self.recorded {
            recorded.push(op.clone());
        }
    }

    pub fn plan(&mut self, nth: u64, fault: Fault, lasting: Lasting, seed: u64) {
        assert!(nth >= 1, "operations are counted from 1");
        self.plan = Some(Plan { passing: nth - 1, fault, lasting, random: SeededRandom::new(seed) });
    }

    pub fn heal(&mut self) {
        self.plan = None;
    }

    /// Whether `op` fails.
    pub fn strike(&mut self, op: &Op) -> Option<Strike> {
        let plan = self.plan.as_mut().filter(|plan| plan.fault.strikes(op))?;
        if plan.passing > 0 {
            plan.passing -= 1;
            return None;
        }
        let strike = Strike { fault: plan.fault, draw: plan.random.below(u64::MAX) };
        if plan.lasting == Lasting::Once {
            self.plan = None;
        }
        self.struck += 1;
        Some(strike)
    }
}
