//! A device that is kept where this process cannot reach it. Names of sockets are those of one network namespace, windows are found in all.

use crate::inspect::windows;
use std::path::PathBuf;

/// Why no device of this name is found, though one is there; `None` if none is there.
pub(super) fn reason(name: &str) -> Option<String> {
    let device = format!("at:{name}");
    let namespace = |process: &str| std::fs::read_link(["/proc/", process, "/ns/net"].concat()).ok();
    let (pid, theirs) = windows().into_iter().filter(|window| window.name == device).find_map(|window| {
        let keeper = *window.processes.first()?;
        Some((keeper, namespace(&keeper.to_string())?))
    })?;
    let is_other = |mine: PathBuf| mine != theirs;
    namespace("self").is_some_and(is_other).then(|| {
        format!(
            "expected a device that `hamr serve {name}` keeps in this network namespace, found one in another namespace \
             (process {pid}); start both in one, or this program by `nsenter --net=/proc/{pid}/ns/net`"
        )
    })
}
