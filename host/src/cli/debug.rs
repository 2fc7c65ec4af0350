//! `hamr debug`: a call on a device that waits for gdb at its first instruction.

use super::call::{self, Args};
use super::{Cli, Failure};
use crate::shm::ShmDebugLauncher;
use crate::{Image, Options};
use std::net::TcpListener;
use std::path::Path;
use std::time::Duration;

/// How long a person may take.
const A_DAY: Duration = Duration::from_secs(24 * 3600);

pub(super) fn run(args: &Args, cli: &Cli) -> Result<(), Failure> {
    let device = &cli.global.device;
    cli.check_device()?;
    let (kind, _) = device.split_once(':').unwrap_or((device, ""));
    let mut runtime = (cli.tool.runtime)()?;
    let port = free_port()?;
    match kind {
        "shm" => {
            if !is_installed("gdbserver") {
                return Err(Failure::new(
                    "expected `gdbserver` in PATH, found none; `apt-get install gdbserver` brings it",
                ));
            }
            runtime.register("shm", ShmDebugLauncher { port });
        }
        #[cfg(feature = "qemu")]
        "qemu" => runtime.register("qemu", crate::qemu::QemuLauncher::for_debugger(port)),
        _ => {
            return Err(Failure::new(format!(
                "expected a device that a debugger can hold, shm or qemu:NAME, got {device}"
            )));
        }
    }
    let file = cli.image()?.resolve(&cli.target_of(device)?)?;
    let signatures = call::signatures(&file.path)?;
    let Some(name) = &args.handler else {
        let tool = cli.tool.name;
        return Err(Failure::new(format!(
            "expected a handler and its values, got none; `{tool} call` lists them with their types"
        )));
    };
    let prepared = call::prepare(name, &signatures, args, cli)?;
    cli.print(&format!("{}\n", attach(&file.path, port, &prepared.signature.name)))?;
    // A stopped device is slow, and a person slower.
    let options = Options { deadline: None, start_deadline: A_DAY, ..prepared.options() };
    let node = runtime.open_with(device, Image::file(&file.path)?, cli.global.apply(options))?;
    prepared.run(&node, cli)
}

/// The command that connects gdb and stops in the handler.
fn attach(image: &Path, port: u16, handler: &str) -> String {
    let gdb = if is_installed("gdb-multiarch") { "gdb-multiarch" } else { "gdb" };
    let function = handler.split('<').next().unwrap_or(handler);
    let image = image.display().to_string().replace('\'', "'\\''");
    format!(
        "{gdb} '{image}' -ex 'set sysroot /' -ex 'target remote 127.0.0.1:{port}' -ex 'break {function}' -ex continue"
    )
}

/// A port that no program listens on now.
fn free_port() -> Result<u16, Failure> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}

fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_names_image_port_and_function() {
        let command = attach(Path::new("/tmp/it's"), 4000, "kernels::fill<f64>");
        assert!(command.contains(" '/tmp/it'\\''s' "), "{command}");
        assert!(
            command.contains("'target remote 127.0.0.1:4000'") && command.contains("'break kernels::fill'"),
            "{command}"
        );
    }
}
