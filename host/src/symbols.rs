//! Names for code addresses of a running image, from the file it was started from, when that is
//! still the same build.

use hamr_comm::fault::Trace;
use object::{Object, ObjectSection};
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use addr2line::Context;
use addr2line::gimli::{Dwarf, EndianSlice, LittleEndian, SectionId};

/// The most addresses whose names are kept. An image's faults have few; if a device sends made-up
/// addresses, the table is cleared.
const MOST_KNOWN: usize = 4096;

/// The source lines of an address; inlined functions first, each followed by the function that it
/// is inlined into.
type Lines = Arc<[SourceLine]>;

/// A location in an image's source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceLine {
    /// Path of the function, when the file has it.
    pub function: Option<String>,
    /// File and line, when the image was built with line tables (`debug = "line-tables-only"`).
    pub place: Option<(String, u32)>,
}

impl fmt::Display for SourceLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.function.as_deref().unwrap_or("an unknown function"))?;
        if let Some((file, line)) = &self.place {
            write!(f, " at {file}:{line}")?;
        }
        Ok(())
    }
}

/// One return address of a [`Backtrace`], or the instruction that trapped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BacktraceFrame {
    /// Address in the image's file.
    pub address: u64,
    /// The source lines at the address; empty when the file has none, or was not read.
    pub lines: Vec<SourceLine>,
}

/// Where an aborted handler was, innermost first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backtrace {
    /// The addresses, without the functions that handle panics.
    pub frames: Vec<BacktraceFrame>,
    /// Why the addresses have no names: the image's file is another build, or cannot be read.
    pub refused: Option<String>,
}

impl Backtrace {
    /// The innermost file and line outside of Rust's own library, which is rarely the cause.
    pub fn place(&self) -> Option<(&str, u32)> {
        let places = self.frames.iter().flat_map(|frame| &frame.lines).filter_map(|line| line.place.as_ref());
        places.map(|(file, line)| (&**file, *line)).find(|(file, _)| !file.starts_with("/rustc/"))
    }

    /// Is one of the functions called so? `name` may be a path or the end of one.
    pub fn names(&self, name: &str) -> bool {
        let mut functions =
            self.frames.iter().flat_map(|frame| &frame.lines).filter_map(|line| line.function.as_deref());
        functions
            .any(|function| function.strip_suffix(name).is_some_and(|path| path.is_empty() || path.ends_with("::")))
    }
}

impl fmt::Display for Backtrace {
    /// One line per function.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(why) = &self.refused {
            writeln!(f, "  backtrace not symbolised: {why}")?;
        }
        let mut newline = "";
        for (number, BacktraceFrame { address, lines }) in self.frames.iter().enumerate() {
            match &lines[..] {
                [] => write!(f, "{newline}  {number:2}: {address:#x}")?,
                [first, outer @ ..] => {
                    write!(f, "{newline}  {number:2}: {first}")?;
                    outer.iter().try_for_each(|line| write!(f, "\n      {line}"))?;
                }
            }
            newline = "\n";
        }
        Ok(())
    }
}

/// The names in one image, read when a fault is displayed.
pub(crate) struct Symbols {
    file: Option<PathBuf>,
    /// Build id of the image that runs.
    running: [u8; 20],
    known: Mutex<BTreeMap<u64, Lines>>,
}

impl fmt::Debug for Symbols {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Symbols({})", self.path().display())
    }
}

impl Symbols {
    pub(crate) fn new(file: Option<PathBuf>, running: [u8; 20]) -> Self {
        Self { file, running, known: Mutex::new(BTreeMap::new()) }
    }

    /// Names what `trace` points to.
    pub(crate) fn backtrace(&self, trace: &Trace) -> Backtrace {
        let pc = Some(trace.pc).filter(|pc| *pc != 0);
        // A return address is behind the call, perhaps in another line or function: the call ends
        // one byte before.
        let looked_up: Vec<(u64, u64)> =
            pc.map(|pc| (pc, pc)).into_iter().chain(trace.frames().map(|at| (at, at - 1))).collect();
        let (found, refused) = match self.find(looked_up.iter().map(|(_, at)| *at)) {
            Ok(found) => (found, None),
            Err(why) => (vec![Lines::default(); looked_up.len()], Some(why)),
        };
        let named = looked_up.into_iter().zip(found);
        let mut frames: Vec<BacktraceFrame> =
            named.map(|((address, _), lines)| BacktraceFrame { address, lines: lines.to_vec() }).collect();
        if pc.is_none() {
            hide_panic_handling(&mut frames);
        }
        Backtrace { frames, refused }
    }

    fn find(&self, addresses: impl Iterator<Item = u64> + Clone) -> Result<Vec<Lines>, String> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let missing: Vec<u64> = addresses.clone().filter(|at| !known.contains_key(at)).collect();
        if !missing.is_empty() {
            if known.len() > MOST_KNOWN {
                known.clear();
            }
            let bytes = self.read()?;
            let file = object::File::parse(&*bytes).map_err(|e| self.unreadable(&e))?;
            self.check(&file)?;
            known.extend(look_up(&file, &missing).map_err(|e| self.unreadable(&e))?);
        }
        Ok(addresses.map(|at| known.get(&at).cloned().unwrap_or_default()).collect())
    }

    fn read(&self) -> Result<Vec<u8>, String> {
        let Some(path) = &self.file else {
            return Err(format!("no image file is known, the image runs build {}", hex(&self.running)));
        };
        crate::io::read(path).map_err(|e| self.unreadable(&e))
    }

    /// The names of another build would be wrong.
    fn check(&self, file: &object::File<'_>) -> Result<(), String> {
        let there = file.build_id().ok().flatten().unwrap_or_default();
        if there == self.running && there != [0; 20] {
            return Ok(());
        }
        let path = self.path().display();
        Err(format!("the file {path} is build {}, the image runs build {}", hex(there), hex(&self.running)))
    }

    fn path(&self) -> &Path {
        self.file.as_deref().unwrap_or(Path::new(""))
    }

    fn unreadable(&self, why: &dyn fmt::Display) -> String {
        format!("the file {} cannot be read: {why}", self.path().display())
    }
}

/// Reads the debugging information once for all of `addresses`.
fn look_up(file: &object::File<'_>, addresses: &[u64]) -> Result<Vec<(u64, Lines)>, addr2line::gimli::Error> {
    let section = |id: SectionId| {
        let data = file.section_by_name(id.name()).and_then(|section| section.data().ok()).unwrap_or_default();
        Ok::<_, addr2line::gimli::Error>(EndianSlice::new(data, LittleEndian))
    };
    let context = Context::from_dwarf(Dwarf::load(section)?)?;
    let symbols = file.symbol_map();
    let is_code = |at: u64| {
        let mut sections = file.sections().filter(|section| section.kind() == object::SectionKind::Text);
        sections.any(|section| (section.address()..section.address().saturating_add(section.size())).contains(&at))
    };
    let lines = |at: u64| -> Lines {
        if !is_code(at) {
            // The address is in a system library, or made up.
            return Lines::default();
        }
        let mut lines = Vec::new();
        if let Ok(mut frames) = context.find_frames(at).skip_all_loads() {
            while let Ok(Some(frame)) = frames.next() {
                let name = frame.function.and_then(|name| name.demangle().ok().map(|name| name.into_owned()));
                let place = frame.location.and_then(|place| Some((place.file?.to_owned(), place.line?)));
                lines.push(SourceLine { function: name, place });
            }
        }
        // The outermost function has a name in the debugging information only if something was
        // inlined into it.
        let symbol = || {
            let name = symbols.get(at)?.name();
            Some(addr2line::demangle_auto(name.into(), None).into_owned())
        };
        match lines.last_mut() {
            Some(outermost) if outermost.function.is_none() => outermost.function = symbol(),
            Some(_) => {}
            None => lines.extend(symbol().map(|name| SourceLine { function: Some(name), place: None })),
        }
        lines.into()
    };
    Ok(addresses.iter().map(|at| (*at, lines(*at))).collect())
}

/// Drops the frames between a panic and its report: everything up to the last function of the panic
/// machinery.
fn hide_panic_handling(frames: &mut Vec<BacktraceFrame>) {
    const MACHINERY: [&str; 6] =
        ["core::panicking::", "core::option::", "core::result::", "std::panicking::", "__rustc", "rust_begin_unwind"];
    let is_machinery = |line: &SourceLine| {
        line.function.as_deref().is_some_and(|name| MACHINERY.iter().any(|part| name.starts_with(part)))
    };
    let last = frames.iter().rposition(|frame| frame.lines.last().is_some_and(is_machinery));
    frames.drain(..last.map_or(0, |last| last + 1));
    if let Some(frame) = frames.first_mut() {
        // Such functions may be inlined into the function that panicked.
        let inlined = frame.lines.iter().take_while(|line| is_machinery(line)).count();
        frame.lines.drain(..inlined);
    }
}

fn hex(id: &[u8]) -> String {
    if id.is_empty() || id == [0; 20] {
        return "unknown".into();
    }
    id.iter().map(|b| format!("{b:02x}")).collect()
}
