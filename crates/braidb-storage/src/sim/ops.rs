//! Every call on the file system is an operation. It is counted, may be recorded, calls a hook, and may be made to fail.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::inline::SeededRandom;

use super::{EIO, ENOSPC, SimFs, errno};

/// The operations: one for each method of the two traits.
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
    /// Whether the operation changes what a crash may leave.
    pub fn mutates(self) -> bool {
        !matches!(self, OpKind::Open | OpKind::Read | OpKind::List | OpKind::Len | OpKind::FreeSpace)
    }
}

/// One operation, before it takes effect.
#[derive(Clone, Debug)]
pub struct Op {
    /// The operation's number on this file system, from 1.
    pub number: u64,
    pub kind: OpKind,
    /// The file or directory, by the name under which it was opened.
    pub path: Arc<Path>,
    /// The second name of a rename or link.
    pub to: Option<Arc<Path>>,
    /// Bytes read, appended or punched. For `Preallocate` and `Truncate`, the new length.
    pub bytes: u64,
    /// Whether the operation needs new space on the device.
    pub takes_space: bool,
}

/// An error to inject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The device fails (`EIO`). Strikes every operation. A struck append may write its first part. A struck sync loses what it
    /// should have made stable.
    Io,
    /// The device is full (`ENOSPC`). Strikes operations that need new space, so no append into preallocated space.
    Full,
    /// A sync of a file or directory fails (`EIO`). The data that it covered is lost: no later sync makes it stable.
    Sync,
}

impl Fault {
    /// Whether the fault can strike `op`.
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

/// Called before each operation that changes something. A hook may use the file system. Its own operations do not call it
/// again.
pub type Hook = Box<dyn FnMut(&SimFs, &Op) + Send>;

/// The state of the hook.
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
    /// A random number. It decides what a failed append leaves.
    pub draw: u64,
}

/// Says whether an operation may be made to fail.
pub(super) type Filter = Box<dyn Fn(&Op) -> bool + Send>;

/// Counts operations and decides which one fails.
#[derive(Default)]
pub(super) struct Gate {
    pub counts: BTreeMap<OpKind, u64>,
    pub recorded: Option<Vec<Op>>,
    number: u64,
    plan: Option<Plan>,
    pub struck: u64,
}

struct Plan {
    /// How many operations that the fault could strike are still to succeed before it strikes.
    passing: u64,
    fault: Fault,
    lasting: Lasting,
    random: SeededRandom,
    /// The operations that the fault may strike.
    filter: Filter,
}

impl Plan {
    fn strikes(&self, op: &Op) -> bool {
        self.fault.strikes(op) && (self.filter)(op)
    }
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

    pub fn plan(&mut self, nth: u64, fault: Fault, lasting: Lasting, seed: u64, filter: Filter) {
        assert!(nth >= 1, "operations are counted from 1");
        self.plan = Some(Plan { passing: nth - 1, fault, lasting, random: SeededRandom::new(seed), filter });
    }

    pub fn heal(&mut self) {
        self.plan = None;
    }

    /// Whether `op` fails.
    pub fn strike(&mut self, op: &Op) -> Option<Strike> {
        let plan = self.plan.as_mut().filter(|plan| plan.strikes(op))?;
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
