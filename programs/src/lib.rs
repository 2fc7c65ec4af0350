//! Programs that run on all devices of a world, each in a module of its own.
//!
//! They are in the table of an image, or of a program whose own threads are to run them, that says
//! [`handlers!`](crate::handlers), and in no other.
//!
//! Who may depend on it: images and the programs that start them.
#![no_std]
#![forbid(unsafe_code)]

pub mod cg;
pub mod cg_local;
pub mod cg_matrix;
pub mod himeno;
pub mod himeno_files;
pub mod himeno_local;
pub mod idle;
pub mod laplace;
mod run;
pub mod stream;

#[doc(hidden)]
pub use hamr_comm::__entry;
pub use hamr_xacc::{HostArray, progress, watched};

/// Puts the programs into the table of this image or program.
#[macro_export]
macro_rules! handlers {
    () => {
        $crate::handlers!(
            cg::cg cg_local::cg_local himeno::himeno himeno_files::himeno_of himeno_local::himeno_local idle::idle
            idle::nothing laplace::laplace stream::stream
        );
    };
    ($($module:ident :: $name:ident)*) => {
        $($crate::__entry!($crate::$module::$name, concat!("hamr_programs::", stringify!($module), "::", stringify!($name)));)*
    };
}
