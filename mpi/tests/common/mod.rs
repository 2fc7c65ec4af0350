//! Starting jobs.

use std::process::Command;
use tempfile::TempDir;

/// Set in the ranks of a job.
pub(crate) const RANK: &str = "HAMR_MPI_TEST_RANK";

/// `mpirun -n RANKS`, of the implementation that this was built with where `HAMR_MPIRUN` names it, on however few processors and
/// as whichever user. What it leaves behind when it is ended is in the folder.
pub(crate) fn mpirun(ranks: u32) -> (Command, TempDir) {
    let mut command = Command::new(std::env::var_os("HAMR_MPIRUN").unwrap_or_else(|| "mpirun".into()));
    command.args(["-n", &ranks.to_string()]).env(RANK, "1");
    // Of Open MPI; others do not know them.
    for name in ["OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "OMPI_MCA_rmaps_base_oversubscribe"] {
        command.env(name, "1");
    }
    // A rank and the device that it serves are two processes.
    command.env("OMPI_MCA_hwloc_base_binding_policy", "none");
    // Two that start at a time would make one folder.
    let folder = tempfile::tempdir().expect("a folder");
    command.env("OMPI_MCA_orte_tmpdir_base", folder.path());
    (command, folder)
}
