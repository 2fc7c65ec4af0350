//! `--help` of the examples.

/// True if an argument asks for help; then `usage` was printed.
pub(crate) fn is_wanted(usage: &str) -> bool {
    let is_asked = std::env::args_os().skip(1).any(|argument| argument == "--help" || argument == "-h");
    if is_asked {
        // A standard output that takes nothing wants no help.
        let _ = hamr::io::print(&format!("usage: {usage}\n"));
    }
    is_asked
}
