//! What this program and a device's image do not agree on.

use std::fmt;

/// A handler that this program and a device's image do not agree on. It shows as one line, which
/// names both.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Warning {
    /// The image has no such handler: calls are refused.
    MissingHandler {
        /// Device name.
        device: String,
        /// Handler path.
        handler: &'static str,
    },
    /// The image has it with other argument or result types: calls are refused.
    OtherSignature {
        /// Device name.
        device: String,
        /// Handler path.
        handler: &'static str,
    },
    /// The image has it from other source: calls go through.
    StaleHandler {
        /// Device name.
        device: String,
        /// Handler path.
        handler: &'static str,
    },
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MissingHandler { device, handler } => {
                write!(f, "device {device}: its image has no handler `{handler}`; calls of it are refused")
            }
            Self::OtherSignature { device, handler } => {
                write!(f, "device {device}: its image has `{handler}` with another signature; calls of it are refused")
            }
            Self::StaleHandler { device, handler } => write!(
                f,
                "device {device}: its image was built from another version of `{handler}`; rebuild the image (stale)"
            ),
        }
    }
}

/// Prints the first of them on standard error: an image of another program has none of this one's handlers.
pub(crate) fn print(warnings: &[Warning]) {
    const MOST: usize = 3;
    for warning in warnings.iter().take(MOST) {
        crate::io::note(format_args!("hamr: warning: {warning}"));
    }
    if let Some(more) = warnings.len().checked_sub(MOST).filter(|more| *more != 0) {
        crate::io::note(format_args!(
            "hamr: warning: and {more} handlers more (Node::warnings; Options::print_warnings)"
        ));
    }
}
