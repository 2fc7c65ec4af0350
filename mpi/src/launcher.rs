//! `mpi:RANK`: the device that another rank of the job serves.

use crate::job::Job;
use hamr::link::{Link, Protocol};
use hamr::tcp::{Unconnected, Way, link_over};
use hamr::{Error, LaunchRequest, Launcher, Target};
use hamr_net::frame::{Bounds, End, Hello};
use hamr_net::{Failure, Opened, Opening};
use std::sync::Arc;
use std::time::Duration;

/// Devices of the other ranks. Its argument is the number of one.
pub struct MpiLauncher(Arc<Job>);

impl MpiLauncher {
    /// For this process's place in its job.
    pub fn new(job: &Arc<Job>) -> Self {
        Self(job.clone())
    }

    fn peer(&self, argument: &str) -> Result<i32, Error> {
        let (job, name) = (&self.0, format!("mpi:{argument}"));
        if job.size() == 1 {
            let why = "expected a job of two ranks at least, this one has 1; start it with `mpirun -n 2 hamr-mpi …`";
            return Err(Error::Launch { device: name, why: why.into() });
        }
        let others: Vec<_> = (0..job.size()).filter(|rank| *rank != job.rank()).collect();
        // Not as a sign would have it.
        let is_number = argument.bytes().all(|byte| byte.is_ascii_digit());
        let peer = argument.parse().ok().filter(|rank| is_number && others.contains(rank));
        peer.ok_or_else(|| {
            let known = match &others[..] {
                [only] => format!("mpi:{only}; rank {} runs the command", job.rank()),
                [first, .., last] => format!("mpi:{first} to mpi:{last}; rank {} runs the command", job.rank()),
                [] => String::new(),
            };
            Error::UnknownDevice { name, known }
        })
    }

    /// The device called `name` of the rank behind the colon; empty: the one that it has.
    ///
    /// # Errors
    /// As [`Launcher::launch`].
    pub fn link(&self, name: &str, request: &LaunchRequest<'_>) -> Result<Box<dyn Link>, Error> {
        let way = Rank { job: self.0.clone(), peer: self.peer(request.argument)? };
        link_over(vec![way], "mpi", name, request, request.start_deadline)
    }
}

impl Launcher for MpiLauncher {
    fn describe(&self) -> String {
        "a device that another rank of this job of MPI serves: mpi:RANK".into()
    }

    fn protocols(&self) -> &'static [Protocol] {
        &[Protocol::Message]
    }

    fn target(&self, argument: &str) -> Result<Option<Target>, Error> {
        self.peer(argument).map(|_| None)
    }

    fn has_window(&self) -> bool {
        true
    }

    fn launch(&self, request: &LaunchRequest<'_>) -> Result<Box<dyn Link>, Error> {
        self.link("", request)
    }
}

/// The way to one.
struct Rank {
    job: Arc<Job>,
    peer: i32,
}

impl Way for Rank {
    fn name(&self) -> String {
        format!("rank {}", self.peer)
    }

    fn open(&self, hello: &Hello<'_>, bounds: Bounds, limit: Duration) -> Result<Opened, Unconnected> {
        let at = self.name();
        let Some(pipe) = self.job.connect(self.peer) else {
            let why = "the job is over, or has no tag for another connection".into();
            return Err(Failure::Other { at, why }.into());
        };
        Ok(Opening::over(pipe.channel(End::Host), &at, hello, bounds, limit)?.finish(limit)?)
    }
}
