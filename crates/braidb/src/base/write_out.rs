//! Asks the device to write a file while a job still appends to it. Otherwise the device would idle during the job, and the job would
//! wait for the whole file in the sync at its end.

use braidb_storage::File;

/// Bytes between two requests: 1 MiB, so no page is requested twice, and a request is rare beside the appends of a quarter of it.
pub const STEP_BYTES: u64 = 1 << 20;

/// The bytes of one file that the device was asked to write: whole steps.
#[derive(Debug, Default)]
pub struct WriteOut {
    end: u64,
}

impl WriteOut {
    /// The file has `written` bytes now.
    pub fn written(&mut self, file: &dyn File, written: u64) {
        let steps_end = written / STEP_BYTES * STEP_BYTES;
        if steps_end > self.end {
            file.write_out(self.end, steps_end - self.end);
            self.end = steps_end;
        }
    }

    /// The file has `written` bytes, and will get no more.
    pub fn ended(&mut self, file: &dyn File, written: u64) {
        file.write_out(self.end, written - self.end);
        self.end = written;
    }
}
