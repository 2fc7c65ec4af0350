//! The load of a module into a running device, and of an image in the place of the one that it runs.

use super::table::{Key, Table};
use super::{BoxError, REPETITIONS};
use hamr::{Image, ImageKind, Options, Runtime, Target};
use std::time::Instant;

/// An image that takes modules, and a module: those of the tests.
pub(crate) const IMAGE: &str = "hamr-checks";
pub(crate) const MODULE: &str = "hamr-tests-module";

/// Adds the rows `load_module` and `load_image`: from a file that is built to handlers that can be called. In
/// a device of its own: the image of the other rows takes no modules.
pub(crate) fn measure(runtime: &Runtime, device: &str, options: Options, table: &mut Table) -> Result<(), BoxError> {
    let Some(target) = runtime.target(device)? else {
        hamr::cli::note(format_args!(
            "hamr-bench: load_module, load_image skipped: device {device} is loaded with no image"
        ));
        return Ok(());
    };
    let kind = if target.kind.is_bare() { ImageKind::BARE_MODULE } else { ImageKind::HOSTED_MODULE };
    // By `module` also the image: `find` would take what HAMR_IMAGE names.
    let files = Image::module(MODULE)?.resolve(&Target { kind, ..target.clone() });
    let (module, image) = match (files, Image::module(IMAGE)?.resolve(&target)) {
        (Ok(module), Ok(image)) => (Image::file(module.path)?, Image::file(image.path)?),
        (Err(e), _) | (_, Err(e)) => {
            hamr::cli::note(format_args!("hamr-bench: load_module, load_image skipped: {e}"));
            return Ok(());
        }
    };
    let node = runtime.open_with(device, image.clone(), options)?;
    for _ in 0..REPETITIONS {
        if table.wants("load_image") {
            let begin = Instant::now();
            node.load_image(&image)?;
            table.add(Key::new("load_image"), &[begin.elapsed().as_nanos() as f64], None);
        }
        if !table.wants("load_module") {
            continue;
        }
        let begin = Instant::now();
        let loaded = node.load_module(&module)?;
        table.add(Key::new("load_module"), &[begin.elapsed().as_nanos() as f64], None);
        loaded.unload()?;
    }
    Ok(())
}
