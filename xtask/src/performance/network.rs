//! Other systems over TCP at this machine's loopback address: an empty call with its result in gRPC and `tarpc`, and a
//! round trip of OpenMPI and UCX.

use super::data::Data;
use super::page::{beside_far, find, time};
use super::rivals::{Rivals, Value};
use super::system::Cpus;
use crate::{Error, child};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// The time to fetch and build the package, and for one program.
const BUILD_LIMIT: Duration = Duration::from_secs(1800);
const LIMIT: Duration = Duration::from_secs(60);
/// What is measured, in [`Value::what`].
const WHAT: &str = "network";
/// Bytes of a message each way.
const SIZE: usize = 8;
/// Systems in `bench/rivals`, and their names there.
const CALLS: [(&str, &str); 2] = [("gRPC (tonic)", "tonic"), ("tarpc", "tarpc")];

/// The package `bench/rivals`, whose dependencies are none of this workspace.
pub(super) struct Calls {
    cpus: Cpus,
    program: Option<PathBuf>,
    /// Why it is left out.
    pub(super) missing: Option<String>,
}

impl Calls {
    /// Builds it.
    pub(super) fn prepare(target: &Path, cpus: Cpus) -> Self {
        let folder = target.join("rivals-calls");
        let mut build = child::cargo();
        build.args(["build", "--quiet", "--release", "--locked", "--manifest-path", "bench/rivals/Cargo.toml"]);
        let built = child::run(build.arg("--target-dir").arg(&folder), BUILD_LIMIT);
        let (program, missing) = match built {
            Ok(()) => (Some(folder.join("release/hamr-rivals")), None),
            Err(why) => (None, Some(format!("gRPC, tarpc: {why}"))),
        };
        Self { cpus, program, missing }
    }

    /// Each system's empty call.
    pub(super) fn measure(&self) -> Result<Vec<Value>, Error> {
        let Some(program) = &self.program else { return Ok(Vec::new()) };
        let Cpus { host, device } = self.cpus;
        let once = |(system, name): (&'static str, &str)| {
            let mut run = Command::new(program);
            let output = child::capture(run.args([name, &host.to_string(), &device.to_string()]), LIMIT)?;
            Ok(value(system, call(&output)?))
        };
        CALLS.into_iter().map(once).collect()
    }
}

fn value(system: &'static str, value: f64) -> Value {
    Value { system, what: WHAT, number: SIZE, value }
}

/// The line that the package prints.
fn call(output: &str) -> Result<f64, Error> {
    let number = output.trim().strip_prefix("call ").and_then(|number| number.parse().ok());
    number.ok_or_else(|| Error::Failed(format!("expected `call` and a number, got `{output}`")))
}

impl Rivals {
    /// OpenMPI's round trip over its TCP transport.
    pub(super) fn mpi_over_tcp(&self) -> Result<Vec<Value>, Error> {
        let all = self.mpi_over(&["--mca", "btl", "self,tcp", "--mca", "btl_tcp_if_include", "lo"])?;
        let of_size = all.into_iter().find(|found| (found.what, found.number) == ("size", SIZE));
        Ok(of_size.map(|found| value("OpenMPI, TCP", found.value)).into_iter().collect())
    }

    /// That of UCX.
    pub(super) fn ucx_over_tcp(&self) -> Result<Vec<Value>, Error> {
        if self.ucx_tests() == 0 {
            return Ok(Vec::new());
        }
        let ns = self.ucx_latency(SIZE, &[("UCX_TLS", "tcp,self"), ("UCX_NET_DEVICES", "lo")])?;
        Ok(Some(ns).filter(|ns| ns.is_finite()).map(|ns| value("UCX, TCP", ns)).into_iter().collect())
    }
}

/// Is it a system over a network?
pub(super) fn has(data: &Data, system: &str) -> bool {
    ["near", "far"].iter().any(|spell| !data.system(system, WHAT, spell).is_empty())
}

/// The table of these systems.
pub(super) fn table(data: &Data) -> String {
    let mut text = String::from("| system | time |\n|---|---|\n");
    let mut line = |name: &str, of: &dyn Fn(&str) -> Option<f64>| {
        let [near, far] = ["near", "far"].map(|spell| of(spell).map(time));
        text += &format!("| {name} | {} |\n", beside_far(near, far));
    };
    line("**hamr**, `tcp_call`", &|spell| find(data, spell, "tcp_call", None)?.value());
    for system in data.systems().into_iter().filter(|system| has(data, system)) {
        line(system, &|spell| data.system(system, WHAT, spell).first().map(|(_, ns)| *ns));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_read_and_nothing_else_is() {
        assert_eq!(call("call 51234\n").expect("a number"), 51_234.0);
        assert!(call("call\n").is_err() && call("size 8 1\n").is_err() && call("").is_err());
    }

    #[test]
    fn systems_over_a_network_have_a_table_of_their_own() {
        let mut data = Data::new(1);
        data.add_system(&value("tarpc", 40_000.0), "near");
        data.add_system(&Value { what: "size", ..value("UCX", 500.0) }, "near");
        assert!(has(&data, "tarpc") && !has(&data, "UCX"));
        let text = table(&data);
        assert!(text.ends_with("| **hamr**, `tcp_call` | – |\n| tarpc | 40 µs |\n"), "{text}");
    }
}
