//! An empty call with its result in gRPC (`tonic`) and in `tarpc`, over TCP between two processes of this machine.
//!
//! `hamr-rivals SYSTEM HOST_CPU SERVER_CPU` starts itself as the server, and prints `call NS`, the median of single calls.

mod over_grpc;
mod over_tarpc;

use std::future::Future;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Instant;

type Failure = Box<dyn std::error::Error>;

/// Calls before the first that counts, and those that do.
const WARM: usize = 1000;
const CALLS: usize = 10_000;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments.iter().map(|argument| &**argument).collect::<Vec<_>>()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("hamr-rivals: {why}");
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: &[&str]) -> Result<(), Failure> {
    let &[system, first, second] = arguments else {
        return Err("expected SYSTEM HOST_CPU SERVER_CPU".into());
    };
    if first == "serve" {
        pin(second)?;
        return match system {
            "tonic" => over_grpc::serve().await,
            "tarpc" => over_tarpc::serve().await,
            _ => Err(unknown(system)),
        };
    }
    pin(first)?;
    let server = Server::start(system, second)?;
    let ns = match system {
        "tonic" => over_grpc::calls(server.at).await?,
        "tarpc" => over_tarpc::calls(server.at).await?,
        _ => return Err(unknown(system)),
    };
    println!("call {ns:.0}");
    Ok(())
}

fn unknown(system: &str) -> Failure {
    format!("expected tonic or tarpc, got `{system}`").into()
}

fn pin(cpu: &str) -> Result<(), Failure> {
    let mut set = rustix::thread::CpuSet::new();
    set.set(cpu.parse()?);
    Ok(rustix::thread::sched_setaffinity(None, &set)?)
}

/// A server says where it listens.
fn say(at: SocketAddr) {
    println!("{at}");
}

/// The median of single calls, in nanoseconds.
async fn median<F: Future<Output = Result<(), Failure>>>(mut call: impl FnMut() -> F) -> Result<f64, Failure> {
    let mut all = Vec::with_capacity(CALLS);
    for i in 0..WARM + CALLS {
        let begin = Instant::now();
        call().await?;
        if i >= WARM {
            all.push(begin.elapsed().as_nanos() as f64);
        }
    }
    all.sort_by(f64::total_cmp);
    all.get(CALLS / 2).copied().ok_or_else(|| "no calls".into())
}

/// This program as the server, until it is dropped.
struct Server {
    child: Child,
    at: SocketAddr,
}

impl Server {
    fn start(system: &str, cpu: &str) -> Result<Self, Failure> {
        let mut command = Command::new(std::env::current_exe()?);
        let mut child = command.args([system, "serve", cpu]).stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        let said = child.stdout.take().map(|output| BufReader::new(output).read_line(&mut line));
        let at = said.ok_or("no output")?.map_err(Failure::from).and_then(|_| Ok(line.trim().parse()?));
        match at {
            Ok(at) => Ok(Self { child, at }),
            Err(why) => {
                let _ = (child.kill(), child.wait());
                Err(why)
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // An error means that it has ended.
        let _ = (self.child.kill(), self.child.wait());
    }
}
