//! Where log statements are in the source: defmt makes a static of each, which the debug
//! information describes with file, line and module.

use gimli::{AttributeValue, Dwarf, EndianSlice, LittleEndian, Unit};
use gimli::{DW_AT_decl_file, DW_AT_decl_line, DW_AT_linkage_name, DW_AT_name, DW_TAG_namespace, DW_TAG_variable};
use object::{Object, ObjectSection};
use std::borrow::Cow;
use std::collections::HashMap;

/// A location in the source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Location {
    /// As the compiler was given it: below the workspace, or absolute.
    pub(super) file: String,
    pub(super) line: u32,
    pub(super) module: String,
}

type Slice<'d> = EndianSlice<'d, LittleEndian>;

/// The locations of the statements, by id. `statements` has the ids by the names of the statics.
pub(super) fn locations(
    elf: &object::File<'_>,
    statements: &HashMap<String, u16>,
) -> gimli::Result<Vec<(u16, Location)>> {
    let load = |id: gimli::SectionId| -> gimli::Result<Cow<'_, [u8]>> {
        let section = elf.section_by_name(id.name());
        Ok(section.and_then(|s| s.uncompressed_data().ok()).unwrap_or_default())
    };
    let sections = gimli::DwarfSections::load(load)?;
    let dwarf = sections.borrow(|bytes| EndianSlice::new(bytes, LittleEndian));
    let mut found = Vec::new();
    let mut units = dwarf.units();
    while let Some(header) = units.next()? {
        let unit = dwarf.unit(header)?;
        of_unit(&dwarf, &unit, statements, &mut found)?;
    }
    Ok(found)
}

fn of_unit(
    dwarf: &Dwarf<Slice<'_>>,
    unit: &Unit<Slice<'_>>,
    statements: &HashMap<String, u16>,
    found: &mut Vec<(u16, Location)>,
) -> gimli::Result<()> {
    let text = |value: Option<AttributeValue<Slice<'_>>>| -> Option<String> {
        Some(dwarf.attr_string(unit, value?).ok()?.to_string_lossy().into_owned())
    };
    // Namespaces around the entry, each with its depth.
    let mut around: Vec<(isize, String)> = Vec::new();
    let mut entries = unit.entries();
    while let Some(entry) = entries.next_dfs()? {
        let depth = entry.depth();
        around.retain(|(outer, _)| *outer < depth);
        if entry.tag() == DW_TAG_namespace {
            around.push((depth, text(entry.attr_value(DW_AT_name)).unwrap_or_default()));
        }
        if entry.tag() != DW_TAG_variable {
            continue;
        }
        let id = text(entry.attr_value(DW_AT_linkage_name)).and_then(|name| statements.get(&name).copied());
        let (Some(id), Some(AttributeValue::FileIndex(file))) = (id, entry.attr_value(DW_AT_decl_file)) else {
            continue;
        };
        let line = entry.attr_value(DW_AT_decl_line).and_then(|line| line.udata_value()).unwrap_or(0);
        if let Some(file) = path(dwarf, unit, file) {
            // Functions are namespaces, too, of the statics inside; `{impl#0}` and closures mean
            // nothing to a reader.
            let module: Vec<&str> = around.iter().map(|(_, n)| &**n).filter(|n| !n.starts_with('{')).collect();
            found.push((id, Location { file, line: line as u32, module: module.join("::") }));
        }
    }
    Ok(())
}

/// A file as the compiler was given it: relative names stay relative to where it ran.
fn path(dwarf: &Dwarf<Slice<'_>>, unit: &Unit<Slice<'_>>, index: u64) -> Option<String> {
    let header = unit.line_program.as_ref()?.header();
    let file = header.file(index)?;
    let text = |value| Some(dwarf.attr_string(unit, value).ok()?.to_string_lossy().into_owned());
    let name = text(file.path_name())?;
    let ran_in = unit.comp_dir.map(|dir| dir.to_string_lossy().into_owned()).unwrap_or_default();
    let dir = file.directory(header).and_then(text).filter(|dir| *dir != ran_in).unwrap_or_default();
    let dir = dir.strip_prefix(&format!("{ran_in}/")).unwrap_or(&dir);
    Some(if dir.is_empty() || name.starts_with('/') { name } else { format!("{dir}/{name}") })
}
