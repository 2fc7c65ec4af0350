//! Logging for handlers: `hamr_comm::{error, warn, info, debug, trace}!`.
//!
//! A handler crate must not call `defmt::` itself: on a host that links the same crate, the call
//! would not link once the level is raised. These macros go to defmt in images, to `tracing` on
//! other hosted builds (feature `tracing`), and otherwise only check their arguments. An image is
//! what the build function of `hamr` makes: bare metal, or hosted with `--cfg hamr_image`;
//! `hamr-device-fw` turns on the feature `defmt` there. Formats are the common subset: `{}`, `{:?}`
//! and `{:x}` with positional arguments.

/// Picks the sink; the level is the name of the sink's macro.
#[cfg(all(feature = "defmt", any(hamr_bare, hamr_image)))]
#[doc(hidden)]
#[macro_export]
macro_rules! __log {
    ($level:ident, $($arg:tt)+) => {{
        use $crate::__private::defmt;
        defmt::$level!($($arg)+);
    }};
}

/// Picks the sink; the level is the name of the sink's macro.
#[cfg(all(feature = "tracing", not(any(hamr_bare, hamr_image))))]
#[doc(hidden)]
#[macro_export]
macro_rules! __log {
    ($level:ident, $($arg:tt)+) => { $crate::__private::tracing::$level!($($arg)+) };
}

/// No sink: the arguments are still checked.
#[cfg(not(any(
    all(feature = "defmt", any(hamr_bare, hamr_image)),
    all(feature = "tracing", not(any(hamr_bare, hamr_image)))
)))]
#[doc(hidden)]
#[macro_export]
macro_rules! __log {
    ($level:ident, $($arg:tt)+) => {{ let _ = ::core::format_args!($($arg)+); }};
}

/// Logs at error level.
#[macro_export]
macro_rules! error { ($($arg:tt)+) => { $crate::__log!(error, $($arg)+) }; }
/// Logs at warn level.
#[macro_export]
macro_rules! warn { ($($arg:tt)+) => { $crate::__log!(warn, $($arg)+) }; }
/// Logs at info level.
#[macro_export]
macro_rules! info { ($($arg:tt)+) => { $crate::__log!(info, $($arg)+) }; }
/// Logs at debug level.
#[macro_export]
macro_rules! debug { ($($arg:tt)+) => { $crate::__log!(debug, $($arg)+) }; }
/// Logs at trace level.
#[macro_export]
macro_rules! trace { ($($arg:tt)+) => { $crate::__log!(trace, $($arg)+) }; }
