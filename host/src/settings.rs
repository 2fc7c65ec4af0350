//! Options that a user sets from outside of the program: in the environment, or as `NAME=VALUE` on
//! the command line. The parser and `hamr help options` come from one table.

mod value;

use crate::{Error, Options};
use std::ffi::OsString;
use std::str::FromStr;
use value::Value;

#[cfg(feature = "cli")]
pub(crate) use value::bytes;

/// A value for one field of [`Options`], as a user has written it.
#[derive(Clone, Debug)]
pub struct Setting {
    row: &'static Row,
    value: String,
}

/// One row of the table.
#[derive(Debug)]
struct Row {
    /// The field of [`Options`].
    name: &'static str,
    /// The environment variable.
    variable: &'static str,
    about: &'static str,
    /// The values it may have.
    values: &'static str,
    set: fn(&mut Options, &str) -> Option<()>,
    show: fn(&Options) -> String,
}

macro_rules! table {
    ($($name:ident $variable:literal $about:literal)*) => {
        const TABLE: &[Row] = &[$(Row {
            name: stringify!($name),
            variable: $variable,
            about: $about,
            values: values(|options: &Options| &options.$name),
            set: |options, text| {
                options.$name = Value::parse(text)?;
                Some(())
            },
            show: |options| options.$name.show(),
        }),*];
    };
}

table! {
    streams "HAMR_STREAMS" "streams open at once"
    ring "HAMR_RING" "slots of a stream, a power of two"
    tickets "HAMR_TICKETS" "calls of tasks in flight per stream"
    chunk "HAMR_CHUNK" "bytes beside a slot for longer messages, a multiple of 64"
    tasks "HAMR_TASKS" "tasks that can call the host"
    serve_in_wait "HAMR_SERVE_IN_WAIT" "a thread that waits for a task runs what the task calls"
    host_chunk "HAMR_HOST_CHUNK" "bytes of the longest call to the host, a multiple of 64"
    relay "HAMR_RELAY" "tasks may call other devices of the program"
    table "HAMR_TABLE" "memory for the device's table of handlers"
    log "HAMR_LOG" "memory for log lines, a power of two; 0: none"
    heap "HAMR_HEAP" "memory for buffers"
    segment "HAMR_SEGMENT" "memory of a rank that no buffer is in, a multiple of 4096"
    verbs "HAMR_VERBS" "queues and registered memory of an adapter; 0: none"
    max_buffers "HAMR_MAX_BUFFERS" "buffers at once"
    max_outstanding "HAMR_MAX_OUTSTANDING" "calls in flight or unread per stream"
    deadline "HAMR_DEADLINE" "how long a wait lasts"
    start_deadline "HAMR_START_DEADLINE" "how long the device may take to start"
    silence "HAMR_SILENCE" "how long a connection to another machine may be silent"
    restart "HAMR_RESTART" "a device that ended by a fault begins another epoch"
    log_level "HAMR_LOG_LEVEL" "the least severe lines that are logged"
    cpu "HAMR_CPU" "the processor that the device is pinned to"
    protocol "HAMR_PROTOCOL" "how calls come to the device and back"
    wait "HAMR_WAIT" "how host and device wait for each other"
    spin "HAMR_SPIN" "with `adaptive`: how long a side polls before it sleeps"
    longest_sleep "HAMR_LONGEST_SLEEP" "how long a side sleeps without a notification"
    print_warnings "HAMR_PRINT_WARNINGS" "what image and program do not agree on is printed"
}

impl Setting {
    /// What the environment sets. An empty variable sets nothing.
    ///
    /// # Errors
    /// [`Error::InvalidConfig`] names a variable whose value cannot be read.
    pub fn from_environment() -> Result<Vec<Self>, Error> {
        let given = TABLE.iter().filter_map(|row| Some((row, variable(row.variable).transpose()?)));
        given.map(|(row, value)| Self::new(row, row.variable, &value?)).collect()
    }

    fn new(row: &'static Row, written: &'static str, value: &str) -> Result<Self, Error> {
        match (row.set)(&mut Options::default(), value) {
            Some(()) => Ok(Self { row, value: value.into() }),
            None => Err(Error::InvalidConfig { option: written, expected: row.values.into(), got: value.into() }),
        }
    }

    /// The variable that sets the same, and its value.
    #[cfg(feature = "cli")]
    pub(crate) fn in_environment(&self) -> (&'static str, &str) {
        (self.row.variable, &self.value)
    }

    /// Sets its field.
    pub fn apply(&self, options: &mut Options) {
        // The value was read before.
        let _ = (self.row.set)(options, &self.value);
    }

    /// All of them for people: names, variables, values and defaults.
    pub fn help() -> String {
        let options = Options::default();
        let mut text =
            String::from("Set as a variable, or as `--option NAME=VALUE`, which goes before the variable.\n\n");
        for row in TABLE {
            let Row { name, variable, about, values, .. } = row;
            text.push_str(&format!(
                "{name:<16} {variable:<21} {about}\n{:<39}{values}; default {}\n",
                "",
                (row.show)(&options)
            ));
        }
        text
    }
}

/// `NAME=VALUE`.
impl FromStr for Setting {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let (name, value) = text.split_once('=').unwrap_or((text, ""));
        let row = TABLE.iter().find(|row| row.name == name);
        let row = row.filter(|_| text.contains('=')).ok_or_else(|| {
            let names = TABLE.iter().map(|row| row.name).collect::<Vec<_>>().join(", ");
            Error::InvalidConfig { option: "--option", expected: format!("NAME=VALUE, of {names}"), got: text.into() }
        })?;
        Self::new(row, row.name, value)
    }
}

/// The value of a variable; `None` where it is not set, or empty.
///
/// # Errors
/// [`Error::InvalidConfig`] names a variable whose value is no text.
pub(crate) fn variable(name: &'static str) -> Result<Option<String>, Error> {
    std::env::var_os(name).filter(|value| !value.is_empty()).map(|value| text(name, value)).transpose()
}

/// A value that must be text.
///
/// # Errors
/// [`Error::InvalidConfig`] names where it is written.
pub(crate) fn text(written: &'static str, value: OsString) -> Result<String, Error> {
    value.into_string().map_err(|value| Error::InvalidConfig {
        option: written,
        expected: "text in UTF-8".into(),
        got: value.as_encoded_bytes().escape_ascii().to_string(),
    })
}

/// The values of a field.
const fn values<T: Value>(_: fn(&Options) -> &T) -> &'static str {
    T::VALUES
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::WaitMode;
    use crate::link::Protocol;
    use hamr_comm::abi::rings::LogLevel;
    use std::time::Duration;

    fn set(text: &str) -> Result<Options, String> {
        let mut options = Options::default();
        text.parse::<Setting>().map_err(|e| e.to_string())?.apply(&mut options);
        Ok(options)
    }

    #[test]
    fn settings_reach_their_fields() {
        let options = Options::default();
        let cases = [
            ("streams=7", Options { streams: Some(7), ..options.clone() }),
            ("streams=auto", Options { streams: None, ..options.clone() }),
            ("heap=3M", Options { heap: 3 << 20, ..options.clone() }),
            ("segment=2G", Options { segment: 2 << 30, ..options.clone() }),
            ("deadline=none", Options { deadline: None, ..options.clone() }),
            ("deadline=1.5s", Options { deadline: Some(Duration::from_millis(1500)), ..options.clone() }),
            ("spin=20us", Options { spin: Duration::from_micros(20), ..options.clone() }),
            ("restart=false", Options { restart: false, ..options.clone() }),
            ("log_level=trace", Options { log_level: LogLevel::TRACE, ..options.clone() }),
            ("cpu=1023", Options { cpu: Some(1023), ..options.clone() }),
            ("protocol=split", Options { protocol: Some(Protocol::Split), ..options.clone() }),
            ("protocol=auto", Options { protocol: None, ..options.clone() }),
            ("wait=sleep", Options { wait: WaitMode::Sleep, ..options.clone() }),
            ("max_outstanding=9", Options { max_outstanding: 9, ..options }),
        ];
        for (text, expected) in cases {
            assert_eq!(set(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_is_shown_is_read_again() {
        for row in TABLE {
            let mut options = Options::default();
            let shown = (row.show)(&options);
            assert_eq!(((row.set)(&mut options, &shown), options), (Some(()), Options::default()), "{}", row.name);
            assert_eq!(row.variable, format!("HAMR_{}", row.name.to_uppercase()));
        }
    }

    #[test]
    fn bad_values_are_named_with_what_was_expected() {
        for (text, expected) in [
            ("streams=-1", "streams: expected a number, or auto: one for each processor, from 8 on, got -1"),
            ("heap=1T", "heap: expected bytes, or with K, M or G, got 1T"),
            ("spin=5", "spin: expected a time such as 300us, 50ms or 1.5s, got 5"),
            ("deadline=-1s", "deadline: expected a time such as 300us, 50ms or 1.5s, or none, got -1s"),
            ("cpu=1024", "cpu: expected a processor from 0 to 1023, or none, got 1024"),
            ("cpu=18446744073709551615", "cpu: expected a processor from 0 to 1023, or none, got 18446744073709551615"),
            ("restart=", "restart: expected true or false, got "),
            ("protocol=message", "protocol: expected auto, mapped, split, host-driven or device-driven, got message"),
            ("wait=never", "wait: expected spin, adaptive or sleep, got never"),
        ] {
            assert_eq!(set(text), Err(expected.into()));
        }
        for unknown in ["heap", "haep=1", "", "memory_hook=1"] {
            let error = set(unknown).expect_err("no such option");
            assert!(error.starts_with("--option: expected NAME=VALUE, of streams, ring,"), "{error}");
        }
    }

    /// A new field of `Options` needs a row, or to be named here.
    #[test]
    fn every_option_has_a_row() {
        let shown = format!("{:#?}", Options::default());
        let fields = shown.lines().filter_map(|line| line.strip_prefix("    ")?.split_once(':')).map(|(name, _)| name);
        let fields = fields.filter(|name| !name.starts_with(' ') && *name != "memory_hook");
        assert_eq!(fields.collect::<Vec<_>>(), TABLE.iter().map(|row| row.name).collect::<Vec<_>>());
    }
}
