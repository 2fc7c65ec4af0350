//! Image files: where they are found, and what is checked before a device loads one.

mod code;
mod table;

pub(crate) use code::ImageMemory;

use crate::builder::{self, BuildRequest};
use crate::{BuildId, Error, Target};
use hamr_comm::abi::ids::Isa;
use hamr_comm::abi::image::{ImageKind, ImageNote, NOTE_SECTION};
use hamr_comm::abi::version::AbiVersion;
use object::{Architecture, Object, ObjectSection, ObjectSegment};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::os::fd::AsRawFd;
#[cfg(feature = "qemu")]
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use zerocopy::FromBytes;

/// The file that this variable names is used without a search.
const IMAGE_VARIABLE: &str = "HAMR_IMAGE";

/// An image, by name or by file; it becomes a file when a device is opened with it, because only
/// then its target is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    source: Source,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Source {
    Named(String),
    File(PathBuf),
    Program(ImageFile),
}

impl Image {
    /// The image that the package or binary `name` builds. It is searched for in this order: the
    /// file that `HAMR_IMAGE` names; a file beside this executable; inside a cargo workspace, by
    /// building it (which prints one line).
    ///
    /// # Errors
    /// When `HAMR_IMAGE` names a file that is not an image. The search itself happens in
    /// [`crate::Runtime::open`], which knows the target.
    pub fn find(name: &str) -> Result<Self, Error> {
        match std::env::var_os(IMAGE_VARIABLE) {
            Some(path) if !path.is_empty() => Self::file(path),
            _ => Ok(Self { source: Source::Named(name.into()) }),
        }
    }

    /// As [`Self::find`], but ignores `HAMR_IMAGE`: a name on the command line takes precedence
    /// over the environment.
    pub(crate) fn named(name: &str) -> Self {
        Self { source: Source::Named(name.into()) }
    }

    /// The image that an argument names: a file, or the name of what builds it.
    pub(crate) fn of_argument(text: &OsStr) -> Result<Self, Error> {
        match (file_in(text), text.to_str()) {
            (Some(path), _) => Self::file(path),
            (None, Some(name)) => Ok(Self::named(name)),
            (None, None) => {
                let why = "expected a file, or the name of a package, which is text, found no such file".into();
                Err(Error::BadImage { path: text.into(), why })
            }
        }
    }

    /// Is there neither a name nor a file?
    pub(crate) fn is_unnamed(&self) -> bool {
        matches!(&self.source, Source::Named(name) if name.is_empty())
    }

    /// An image file.
    ///
    /// # Errors
    /// When the file cannot be read or is no image.
    pub fn file(path: impl Into<PathBuf>) -> Result<Self, Error> {
        let file = ImageFile::open(&path.into())?;
        Ok(Self { source: Source::File(file.path) })
    }

    /// A module ([`crate::Node::load_module`]): a file, or the name of the package that builds it.
    ///
    /// # Errors
    /// When the file cannot be read or is neither image nor module.
    pub fn module(text: impl AsRef<OsStr>) -> Result<Self, Error> {
        Self::of_argument(text.as_ref())
    }

    /// A program of this machine that is to be a rank of a world ([`crate::world::main`]), started
    /// with these arguments. Its standard output and standard error are those of this process.
    ///
    /// # Errors
    /// When the file cannot be read or is no ELF file.
    pub fn program(
        path: impl Into<PathBuf>,
        arguments: impl IntoIterator<Item = impl Into<OsString>>,
    ) -> Result<Self, Error> {
        let arguments = arguments.into_iter().map(Into::into).collect();
        Ok(Self { source: Source::Program(ImageFile::open_program(&path.into(), arguments)?) })
    }

    /// The file as it is, for a device that others have started: nothing is built, and whether it is that device's is seen by
    /// its build id.
    pub(crate) fn as_it_is(&self) -> Option<ImageFile> {
        let path = match &self.source {
            Source::File(path) => path.clone(),
            Source::Named(name) if name.is_empty() => return None,
            Source::Named(name) => {
                let exe = std::env::current_exe().ok()?;
                Some(exe.with_file_name(name)).filter(|beside| *beside != exe)?
            }
            Source::Program(_) => return None,
        };
        ImageFile::open(&path).ok()
    }

    /// Finds or builds the file, and checks that it is made for `target`.
    ///
    /// # Errors
    /// When there is none, or it is for something else.
    pub fn resolve(&self, target: &Target) -> Result<ImageFile, Error> {
        let file = match &self.source {
            Source::File(path) => ImageFile::open(path)?,
            Source::Named(name) => ImageFile::open(&locate(name, target)?)?,
            Source::Program(file) => file.clone(),
        };
        file.check(target)?;
        Ok(file)
    }
}

/// The file that an argument names; `None` when it is a name.
pub(crate) fn file_in(text: &OsStr) -> Option<&Path> {
    let path = Path::new(text);
    // A folder may be called as the package in it.
    let is_there = || path.metadata().is_ok_and(|facts| !facts.is_dir());
    (text.as_bytes().contains(&b'/') || is_there()).then_some(path)
}

fn locate(name: &str, target: &Target) -> Result<PathBuf, Error> {
    let exe = std::env::current_exe().map_err(Error::io("finding this executable"))?;
    let beside = match target.kind {
        ImageKind::HOSTED_MODULE => exe.with_file_name(format!("lib{}.so", name.replace('-', "_"))),
        _ => exe.with_file_name(name),
    };
    // The host's own target folder may have a build of the image's package that [`build`] did not
    // make. It is an image if it has the note.
    if beside != exe && beside.is_file() && ImageFile::open(&beside).is_ok_and(|f| f.check(target).is_ok()) {
        return Ok(beside);
    }
    match builder::workspace_with(name, &exe, target.kind)? {
        Some(dir) => builder::build(&BuildRequest { name: name.into(), target: target.clone(), dir }),
        None => Err(Error::NoImage {
            what: builder::noun(target.kind),
            name: name.into(),
            why: match target.kind.is_module() {
                true => format!(
                    "it is not at {}, and this program was not started inside a cargo workspace; build it with `hamr image \
                     --module {name}` in its workspace and name the path printed",
                    beside.display()
                ),
                false => format!(
                    "it is not at {}, {IMAGE_VARIABLE} is not set, and this program was not started inside a cargo workspace; \
                     build it with `hamr image {name}` in its workspace and set {IMAGE_VARIABLE} to the path printed",
                    beside.display()
                ),
            },
        }),
    }
}

/// An image file that is complete and whose note was read. The methods read its other tables later.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ImageFile {
    /// The absolute path, so that it names the same file when the program changes its folder.
    pub path: PathBuf,
    /// Hosted or bare.
    pub kind: ImageKind,
    /// Instruction set.
    pub isa: Isa,
    /// ABI range.
    pub abi: (AbiVersion, AbiVersion),
    /// Build id.
    pub build_id: BuildId,
    /// Hash of the names and signatures of its handlers, which the device that runs it shows as its
    /// fingerprint. 0 when the image's ABI is unknown to this host.
    pub fingerprint: u64,
    file: Opened,
    /// The arguments of a program that is no image.
    program: Option<Vec<OsString>>,
}

/// The file that was checked; another one may be at its path by now.
#[derive(Clone, Debug)]
struct Opened(Arc<File>);

/// The other fields of an image decide whether two are equal.
impl PartialEq for Opened {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}
impl Eq for Opened {}

impl ImageFile {
    /// Reads the file's note and checks its handler table.
    ///
    /// # Errors
    /// When the file cannot be read, is no ELF file, is big-endian or truncated, is no image, or
    /// contains two handlers of one name.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let bad = |why: String| Error::BadImage { path: path.into(), why };
        let read = FileBytes::of(path)?;
        let elf = parse(&read.bytes).map_err(bad)?;
        let note = note(&elf).ok_or_else(|| {
            bad(format!("expected a hamr image, got an ELF file without a {NOTE_SECTION} note: its main.rs needs `hamr_device_fw::image!()`"))
        })?;
        let kind = ImageKind(note.kind);
        let abi = (AbiVersion::from_wire(note.abi_min), AbiVersion::from_wire(note.abi_max));
        // The table of an image with another ABI has another shape; `check` reports the ABI.
        let fingerprint = match AbiVersion::negotiate(abi.0, abi.1) {
            Some(_) => table::fingerprint(&elf, kind).map_err(bad)?,
            None => 0,
        };
        Ok(Self {
            build_id: build_id(&elf),
            path: read.path,
            file: read.file,
            kind,
            fingerprint,
            isa: Isa(note.isa),
            abi,
            program: None,
        })
    }

    /// A program of this system. What it speaks, it says when it joins.
    fn open_program(path: &Path, arguments: Vec<OsString>) -> Result<Self, Error> {
        let bad = |why: String| Error::BadImage { path: path.into(), why };
        let read = FileBytes::of(path)?;
        let elf = parse(&read.bytes).map_err(bad)?;
        if elf.entry() == 0 {
            return Err(bad("expected a program, got an ELF file that cannot be started".into()));
        }
        let isa = match elf.architecture() {
            Architecture::X86_64 => Isa::X86_64,
            Architecture::Aarch64 => Isa::AARCH64,
            Architecture::Riscv64 => Isa::RISCV64,
            _ => Isa(0),
        };
        Ok(Self {
            build_id: build_id(&elf),
            path: read.path,
            file: read.file,
            kind: ImageKind::HOSTED,
            fingerprint: 0,
            isa,
            abi: (AbiVersion::MIN, AbiVersion::CURRENT),
            program: Some(arguments),
        })
    }

    /// Is the file an image, and not any other ELF file?
    #[cfg(feature = "cli")]
    pub(crate) fn is_image(path: &Path) -> Result<bool, Error> {
        let read = FileBytes::of(path)?;
        let elf = parse(&read.bytes).map_err(|why| Error::BadImage { path: path.into(), why })?;
        Ok(note(&elf).is_some())
    }

    /// Is it a program that joins its world by itself?
    pub(crate) fn is_program(&self) -> bool {
        self.program.is_some()
    }

    /// A command that starts this very file, under the name of its path, also when another file has
    /// replaced it there. The command uses this program's descriptor, which `self` keeps open.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(format!("/proc/self/fd/{}", self.file.0.as_raw_fd()));
        command.arg0(&self.path).args(self.program.iter().flatten());
        command
    }

    /// The file that was checked.
    #[cfg(feature = "qemu")]
    pub(crate) fn opened(&self) -> BorrowedFd<'_> {
        self.file.0.as_fd()
    }

    /// Checks that the image is made for `target`.
    ///
    /// # Errors
    /// The error names the difference in kind, instruction set or ABI.
    pub fn check(&self, target: &Target) -> Result<(), Error> {
        let bad = |why: String| Err(Error::BadImage { path: self.path.clone(), why });
        if self.is_program() && *target != Target::hosted() {
            return bad("expected an image for this device, got a program, which runs on shm alone".into());
        }
        let advice =
            || format!("build one for {} (`hamr image NAME --device DEVICE`), or choose another device", target.triple);
        if self.kind.is_module() != target.kind.is_module() {
            let what = |is_module| if is_module { "a module" } else { "an image" };
            return bad(format!("expected {}, got {}", what(target.kind.is_module()), what(self.kind.is_module())));
        }
        let (article, what) = if target.kind.is_module() { ("a", "module") } else { ("an", "image") };
        if self.kind != target.kind {
            let (wanted, got) = (target.kind.text(), self.kind.text());
            return bad(format!("expected a {wanted} {what} for this device, got a {got} one; {}", advice()));
        }
        if self.isa != target.isa {
            let (wanted, got) = (target.isa.name(), self.isa.name());
            return bad(format!("expected {article} {what} for {wanted}, got one for {got}; {}", advice()));
        }
        let (min, max) = self.abi;
        if AbiVersion::negotiate(min, max).is_none() {
            return bad(format!(
                "expected an image that speaks some of ABI {} to {}, as this host, got one for {min} to {max}; rebuild \
                 the older of the two",
                AbiVersion::MIN,
                AbiVersion::CURRENT
            ));
        }
        Ok(())
    }
}

/// A file that was read.
struct FileBytes {
    /// Its absolute path.
    path: PathBuf,
    file: Opened,
    bytes: Vec<u8>,
}

impl FileBytes {
    fn of(path: &Path) -> Result<Self, Error> {
        let unreadable = |e: std::io::Error| Error::BadImage {
            path: path.into(),
            why: format!("expected an ELF file, cannot read it: {e}"),
        };
        let absolute = std::path::absolute(path).map_err(unreadable)?;
        // A child is started by the number of its file, which must be none of those that a child has anew.
        hamr_device_fw::hosted::reserve_stdio();
        let mut file = crate::io::open(path).map_err(unreadable)?;
        // A file that is none may be longer than memory.
        let mut bytes = Vec::new();
        file.by_ref().take(object::elf::ELFMAG.len() as u64).read_to_end(&mut bytes).map_err(unreadable)?;
        if bytes != object::elf::ELFMAG {
            let len = file.metadata().map_err(unreadable)?.len();
            let why = format!("expected an ELF file, got {len} bytes that are none");
            return Err(Error::BadImage { path: path.into(), why });
        }
        file.read_to_end(&mut bytes).map_err(unreadable)?;
        Ok(Self { path: absolute, file: Opened(Arc::new(file)), bytes })
    }
}

fn note(elf: &object::File<'_>) -> Option<ImageNote> {
    let section = elf.section_by_name(NOTE_SECTION)?;
    ImageNote::read_from_prefix(section.data().ok()?).ok().map(|(note, _)| note)
}

fn build_id(elf: &object::File<'_>) -> BuildId {
    BuildId::of(elf.build_id().ok().flatten().unwrap_or_default())
}

/// Reads the file's tables and checks that everything that they name exists. The error names the
/// fault.
fn parse(bytes: &[u8]) -> Result<object::File<'_>, String> {
    let len = bytes.len();
    let is_elf = bytes.starts_with(&object::elf::ELFMAG);
    if is_elf && bytes.get(object::elf::ELFMAG.len() + 1) == Some(&object::elf::ELFDATA2MSB) {
        return Err("expected a little-endian image, as all that travels is, got a big-endian one; build it for a \
                    little-endian target"
            .into());
    }
    let elf = object::File::parse(bytes).map_err(|e| match is_elf {
        true => format!("expected a whole ELF file, got {len} bytes of one ({e}); {TRUNCATED}"),
        false => format!("expected an ELF file, got {len} bytes that are none ({e})"),
    })?;
    let segments = elf.segments().map(|s| s.file_range());
    let sections = elf.sections().filter_map(|s| s.file_range());
    for (start, size) in segments.chain(sections) {
        let end = start.saturating_add(size);
        if end > len as u64 {
            return Err(format!("expected an ELF file of at least {end} bytes, got {len}; {TRUNCATED}"));
        }
    }
    Ok(elf)
}

const TRUNCATED: &str = "it was cut short or damaged: build or copy it again";
