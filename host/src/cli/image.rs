//! `hamr image`: builds an image through the one build function, and prints only its path.

use super::{Cli, Failure};
use crate::builder::workspace_with;
use crate::{BuildRequest, Target, build};

#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// The package or binary that is the image; the tool's own image unless given
    name: Option<String>,
    /// Build a module (docs/modules.md): a package whose library is a `cdylib`
    #[arg(long, requires = "name")]
    module: bool,
}

pub(super) fn run(args: &Args, cli: &Cli) -> Result<(), Failure> {
    let named = cli.global.image.clone().map(|name| crate::settings::text("--image", name)).transpose()?;
    let name = args.name.as_deref().or(named.as_deref()).unwrap_or(cli.tool.image);
    let mut target = cli.target_of(&cli.global.device)?;
    if args.module {
        let none = || Failure::new(format!("there are no modules for {}", target.isa));
        target = Target::of_module(target.kind, target.isa).ok_or_else(none)?;
    }
    let here = std::env::current_exe()?;
    let dir = workspace_with(name, &here, target.kind)?.ok_or_else(|| {
        Failure::new(format!(
            "cannot build image `{name}`: expected a cargo workspace around {} or the current folder, found none; run this inside the workspace that contains the image",
            here.display()
        ))
    })?;
    let path = build(&BuildRequest { name: name.into(), target, dir })?;
    let path = path.display();
    if cli.global.json {
        return cli.print_json(&serde_json::json!({ "image": path.to_string() }));
    }
    cli.print(&format!("{path}\n"))
}
