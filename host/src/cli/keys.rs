//! `hamr keys`: a key for both ends of connections between machines.

use super::{Cli, Failure};
use serde_json::json;
use std::path::PathBuf;

#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// The file, which only its user may read; one that exists is not written over
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

pub(super) fn run(args: &Args, cli: &Cli) -> Result<(), Failure> {
    let Args { file } = args;
    hamr_net::key::make(file)?;
    match cli.global.json {
        true => cli.print_json(&json!({ "key": file.display().to_string() })),
        false => {
            let name = file.display();
            cli.print(&format!("{name}: a new key; give a copy to both ends, and to nobody else\n"))
        }
    }
}
