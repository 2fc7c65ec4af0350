//! A connection to another rank, as `hamr_net` has it.

use crate::job::{Ended, Job, Name};
use hamr_net::frame::End;
use hamr_net::{Broken, Carrier, Channel, Wire};
use std::sync::Arc;
use std::time::Duration;

/// One end of a connection. It ends when its [`Channel`] is dropped.
pub struct Pipe {
    job: Arc<Job>,
    name: Name,
}

impl Pipe {
    pub(crate) fn new(job: Arc<Job>, name: Name) -> Self {
        Self { job, name }
    }

    /// As frames.
    pub fn channel(self, end: End) -> Channel {
        let wire = Arc::new(Self { job: self.job.clone(), name: self.name });
        Channel::over(self, wire, end)
    }
}

impl From<Ended> for Broken {
    fn from(_: Ended) -> Self {
        Self::Closed
    }
}

impl Carrier for Pipe {
    fn read(&mut self, to: &mut [u8]) -> Result<usize, Broken> {
        Ok(self.job.read(self.name, to)?)
    }
    fn write(&mut self, from: &[u8]) -> Result<usize, Broken> {
        Ok(self.job.write(self.name, from)?)
    }
}

impl Wire for Pipe {
    fn end(&self) {
        self.job.end(self.name);
    }
    fn has_gone(&self) -> bool {
        self.job.has_gone(self.name)
    }
    fn pause(&self) -> Duration {
        self.job.pause(self.name)
    }
}
