//! Asks the device to write a file while a job still appends to it. Otherwise the device would idle during the job, and the job would
//! wait for the whole file in the sync at its end.

use braidb_storage::File;

/// The device is asked again after this many bytes: 1 MiB. It is a multiple of a page, so no page is requested twice. Jobs append 256
/// KiB at a time, so most appends make no request.
pub const STEP_BYTES: u64 = 1 << 20;

/// How much of one file the device was asked to write: a multiple of [`STEP_BYTES`] until the file has ended.
#[derive(Debug, Default)]
pub struct WriteOut {
    end: u64,
}

impl WriteOut {
    /// To be called after an append: the file has `written` bytes now. Asks the device to write the steps that became full.
    pub fn written(&mut self, file: &dyn File, written: u64) {
        let steps_end = written / STEP_BYTES * STEP_BYTES;
        if steps_end > self.end {
            file.write_out(self.end, steps_end - self.end);
            self.end = steps_end;
        }
    }

    /// To be called after the last append: asks the device to write the rest of the `written` bytes.
    pub fn ended(&mut self, file: &dyn File, written: u64) {
        file.write_out(self.end, written - self.end);
        self.end = written;
    }
}
