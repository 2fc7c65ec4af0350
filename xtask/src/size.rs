//! `cargo xtask size`: the size of the demo image on each machine, and whether its code and
//! constants stay within a limit. Devices have little memory; a formatting routine that slips in
//! costs more than the whole runtime.

use crate::machines::{MACHINES, can_build, device};
use crate::test::Outcome;
use crate::{Error, image};
use object::elf::{PF_W, PF_X, SHF_ALLOC};
use object::{Object, ObjectSection, ObjectSegment, SectionFlags, SegmentFlags};
use std::path::Path;

/// Bytes of code and constants that an image may have. On x86_64, where they take the most, calls to
/// the host take 13,900 of them, tasks 6,594 and messages in two lines 2,000.
const LIMIT: u64 = 64 * 1024;

/// Bytes that an image takes in the device's memory, without gaps between sections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sizes {
    text: u64,
    /// Constants, the handler table and the notes.
    rodata: u64,
    data: u64,
    /// Data that the start-up code zeroes or leaves as it is, without the stacks.
    bss: u64,
    stacks: u64,
}

impl Sizes {
    /// The bytes that the limit applies to.
    fn constant(&self) -> u64 {
        self.text + self.rodata
    }

    /// Sorts sections by the segment that loads them, and not by name or flags: a new section must
    /// not escape the limit, and one writable input makes the linker mark a whole section of
    /// constants writable.
    fn parse(bytes: &[u8]) -> object::Result<Self> {
        let file = object::File::parse(bytes)?;
        let mut sizes = Self::default();
        for section in file.sections() {
            // A section that is not loaded has address 0, which may be inside a segment.
            let is_loaded =
                matches!(section.flags(), SectionFlags::Elf { sh_flags } if sh_flags & u64::from(SHF_ALLOC) != 0);
            let holds = |segment: &object::Segment<'_, '_>| {
                (segment.address()..segment.address() + segment.size()).contains(&section.address())
            };
            let Some(segment) = file.segments().find(holds).filter(|_| is_loaded) else { continue };
            let SegmentFlags::Elf { p_flags } = segment.flags() else { continue };
            let sum = match section.file_range() {
                None if section.name() == Ok(".stacks") => &mut sizes.stacks,
                None => &mut sizes.bss,
                Some(_) if p_flags & PF_X != 0 => &mut sizes.text,
                Some(_) if p_flags & PF_W != 0 => &mut sizes.data,
                Some(_) => &mut sizes.rodata,
            };
            *sum += section.size();
        }
        Ok(sizes)
    }

    fn read(path: &Path) -> Result<Self, Error> {
        let failed = |error: &dyn std::fmt::Display| Error::Failed(format!("{}: {error}", path.display()));
        let bytes = std::fs::read(path).map_err(|e| failed(&e))?;
        Self::parse(&bytes).map_err(|e| failed(&e))
    }
}

/// One machine's image.
type Row = (&'static str, Sizes);

/// Builds, prints a table or one line of JSON per image, and judges.
pub(crate) fn task(arguments: &[String]) -> Result<(), Error> {
    let is_json = match arguments {
        [] => false,
        [flag] if flag == "--json" => true,
        [other, ..] => return Err(Error::unknown(other, "--json or nothing")),
    };
    match measure(is_json) {
        Outcome::Passed(_) => Ok(()),
        Outcome::Skipped(why) => {
            eprintln!("skipped: {why}");
            Ok(())
        }
        Outcome::Failed(why) => Err(Error::Failed(why)),
    }
}

/// The same as a step of `cargo xtask test`.
pub(crate) fn step() -> Outcome {
    measure(false)
}

fn measure(is_json: bool) -> Outcome {
    let mut rows = Vec::new();
    let mut missing = None;
    for machine in &MACHINES {
        match can_build(machine) {
            Err(outcome) => missing = Some(outcome),
            Ok(()) => match image::build(image::DEMO, &device(machine)).and_then(|path| Sizes::read(&path)) {
                Ok(sizes) => rows.push((machine.name, sizes)),
                Err(error) => return Outcome::Failed(format!("{} for {}: {error}", image::DEMO, machine.name)),
            },
        }
    }
    print!("{}", if is_json { json(&rows) } else { table(&rows) });
    match (judge(&rows), missing) {
        (Ok(_), Some(outcome)) => outcome,
        (result, _) => Outcome::noted(result),
    }
}

fn table(rows: &[Row]) -> String {
    let mut text = String::from("machine       text   rodata     data      bss   stacks  text+rodata    limit\n");
    for (name, sizes) in rows {
        let Sizes { text: code, rodata, data, bss, stacks } = *sizes;
        let constant = sizes.constant();
        text += &format!("{name:<9}{code:>9}{rodata:>9}{data:>9}{bss:>9}{stacks:>9}{constant:>13}{LIMIT:>9}\n");
    }
    text
}

fn json(rows: &[Row]) -> String {
    let line = |(name, sizes): &Row| {
        let value = serde_json::json!({
            "image": image::DEMO, "machine": name, "text": sizes.text, "rodata": sizes.rodata, "data": sizes.data,
            "bss": sizes.bss, "stacks": sizes.stacks, "text_rodata": sizes.constant(), "limit": LIMIT,
        });
        format!("{value}\n")
    };
    rows.iter().map(line).collect()
}

/// Returns a line with all sizes; an error names the images over the limit and by how much.
fn judge(rows: &[Row]) -> Result<String, Error> {
    let over = rows.iter().filter(|(_, sizes)| sizes.constant() > LIMIT).map(|(name, sizes)| {
        let size = sizes.constant();
        format!(
            "{} for {name}: {size} bytes of text and rodata, {} over the limit of {LIMIT}",
            image::DEMO,
            size - LIMIT
        )
    });
    // An image without code would pass every limit.
    let empty = rows.iter().filter(|(_, sizes)| sizes.text == 0);
    let empty = empty.map(|(name, _)| format!("{} for {name}: no section has code", image::DEMO));
    let faults: Vec<String> = over.chain(empty).collect();
    if !faults.is_empty() {
        return Err(Error::Failed(faults.join("; ")));
    }
    let sizes = rows.iter().map(|(name, sizes)| format!("{name} {}", sizes.constant()));
    Ok(format!("{} of {LIMIT} bytes", sizes.collect::<Vec<_>>().join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(text: u64, rodata: u64) -> Sizes {
        // Parts outside of the limit must not count.
        Sizes { text, rodata, data: LIMIT, bss: LIMIT, stacks: LIMIT }
    }

    #[test]
    fn the_limit_itself_passes_and_one_byte_more_is_named() {
        assert!(judge(&[("x86_64", image(LIMIT - 100, 100)), ("riscv64", image(1, 0))]).is_ok());
        let error = judge(&[("x86_64", image(LIMIT, 1)), ("aarch64", image(9, 9)), ("riscv64", image(1, LIMIT + 6))]);
        let expected = "hamr-demo for x86_64: 65537 bytes of text and rodata, 1 over the limit of 65536; \
                        hamr-demo for riscv64: 65543 bytes of text and rodata, 7 over the limit of 65536";
        assert_eq!(error.expect_err("two are over").to_string(), expected);
    }

    #[test]
    fn an_image_without_code_fails() {
        assert!(judge(&[("x86_64", image(0, 10))]).is_err());
    }

    #[test]
    fn sections_are_sorted_by_their_segment() {
        let sizes = Sizes::read(&std::env::current_exe().expect("a path")).expect("it is an ELF file");
        assert!(sizes.text > 0 && sizes.rodata > 0 && sizes.data > 0 && sizes.bss > 0, "{sizes:?}");
        assert_eq!(sizes.stacks, 0);
        assert!(Sizes::parse(b"no program").is_err());
        assert!(Sizes::read(Path::new("/nowhere")).is_err());
    }

    #[test]
    fn json_is_a_line_per_image() {
        let text = json(&[("x86_64", image(1, 2)), ("riscv64", image(3, 4))]);
        let lines: Vec<serde_json::Value> = text.lines().map(|l| serde_json::from_str(l).expect("JSON")).collect();
        assert_eq!(lines.len(), 2);
        assert_eq!((&lines[1]["machine"], &lines[1]["text_rodata"]), (&"riscv64".into(), &7.into()));
        assert_eq!(table(&[("x86_64", image(1, 2))]).lines().count(), 2);
    }
}
