//! Files of Himeno's field: where it begins, and where it goes.

use crate::{Failure, npy, svg};
use hamr::World;
use hamr_programs::HostArray;
use hamr_programs::himeno::Run;
use hamr_programs::himeno_files::himeno_of;
use std::ffi::OsString;
use std::path::PathBuf;

/// Files, each of which may be none.
#[derive(Default)]
pub(crate) struct Files {
    from: Option<PathBuf>,
    begin: Option<Vec<f32>>,
    npy: Option<PathBuf>,
    svg: Option<PathBuf>,
}

impl Files {
    /// Takes options with their files out of the arguments.
    ///
    /// # Errors
    /// Another option, one without a file, or one twice.
    pub(crate) fn of(args: &mut Vec<OsString>) -> Result<Self, Failure> {
        let mut files = Self::default();
        while let Some(at) = args.iter().position(|arg| arg.as_encoded_bytes().starts_with(b"--")) {
            let option = args.remove(at);
            let name = option.display();
            let file = match option.to_str() {
                Some("--from") => &mut files.from,
                Some("--npy") => &mut files.npy,
                Some("--svg") => &mut files.svg,
                _ => return Err(format!("expected --from, --npy or --svg, got {name}").into()),
            };
            if at == args.len() {
                return Err(format!("{name} needs a file").into());
            }
            if file.replace(args.remove(at).into()).is_some() {
                return Err(format!("expected {name} once, got it twice").into());
            }
        }
        Ok(files)
    }

    /// Reads the field that a run begins with.
    ///
    /// # Errors
    /// The file has another one, or none; a file that the run writes has no folder, or is written twice.
    pub(crate) fn load(&mut self, size: [i64; 3]) -> Result<(), Failure> {
        for path in [&self.npy, &self.svg].into_iter().flatten() {
            // Before a run that may take minutes.
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            if folder.is_some_and(|folder| !folder.is_dir()) || path.is_dir() {
                return Err(format!("{}: no file can be there", path.display()).into());
            }
        }
        if let (Some(npy), Some(svg)) = (&self.npy, &self.svg)
            && hamr::io::is_same(npy, svg)
        {
            return Err(format!("{}: expected a file for each, got one for --npy and --svg", svg.display()).into());
        }
        self.begin = self.from.as_deref().map(|path| npy::load(path, &size)).transpose()?;
        Ok(())
    }

    /// Bytes of the heap that [`Self::run`] needs.
    pub(crate) fn bytes(&self, [i, j, k]: [i64; 3]) -> u64 {
        if self.is_any() { (i * j * k) as u64 * 4 } else { 0 }
    }

    /// There is a file.
    pub(crate) fn is_any(&self) -> bool {
        self.from.is_some() || self.npy.is_some() || self.svg.is_some()
    }

    /// Runs the program from the one file, and writes the others.
    ///
    /// # Errors
    /// A file; the run.
    pub(crate) fn run(&self, world: &World, size: [i64; 3], nodes: [u32; 2], loops: u32) -> Result<[Run; 2], Failure> {
        let [i, j, k] = size;
        let zeros = || vec![0.0; (i * j * k) as usize];
        let field = world.node(0).buffer(&self.begin.clone().unwrap_or_else(zeros))?;
        let goes_on = self.begin.is_some();
        let runs = world.run(himeno_of::with(size, nodes, loops, HostArray::new(0, field.ptr(), size), goes_on))?;
        let field = field.read()?;
        if let Some(path) = &self.npy {
            npy::save(path, &size, &field)?;
        }
        if let Some(path) = &self.svg {
            // The plane in the middle of j.
            let row = |i: i64| field[((i * j + j / 2) * k) as usize..][..k as usize].to_vec();
            let title = format!("Himeno, {i} x {j} x {k}: p at j = {}", j / 2);
            let plane = svg::plane(&title, ["i", "k"], &(0..i).map(row).collect::<Vec<_>>());
            hamr::io::write(path, plane.as_bytes()).map_err(|e| format!("{}: {e}", path.display()))?;
        }
        Ok(runs)
    }
}
