//! `hamr call`: calls any handler of an image, also one that this program does not link. The
//! image's file has the handlers' names and types as text (abi §10); values are read and printed by
//! them. The hash of what was read must be the one in the device's table.

mod encode;
mod records;
mod show;
mod types;

use super::{Cli, Failure, one_line};
use crate::stream::KnownKey;
use crate::untyped::{Arguments, Bytes, Untyped};
use crate::{Buffer, CallError, CallOptions, HandlerInfo, Image, ImageFile, Module, Node, Options, Target};
use encode::{BufferArgument, Encoded};
use hamr_comm::Call;
use hamr_comm::abi::buffer::{BufferParts, WireBuffer};
use hamr_comm::abi::table::record_flag;
use serde_json::{Map, Value, json};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
#[cfg(test)]
use types::Type;
use types::{ErrorType, Signature};

#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// Path of the handler, or the end of it, such as `axpy` or `fill<f64>`; without it all handlers
    /// are listed with their types
    #[arg(value_name = "HANDLER")]
    pub(super) handler: Option<String>,
    /// The arguments: 5, -0.5, true, text, [1, 2], (1, 2), {a: 1}, none, some(1), Variant; a buffer
    /// is a list, [0; 1000], or @FILE with the elements' bytes
    #[arg(value_name = "VALUE", allow_negative_numbers = true)]
    values: Vec<OsString>,
    /// Load a module (docs/modules.md) beside the image, and call a handler of it: a file, or the package
    /// that builds it
    #[arg(long, value_name = "NAME|PATH")]
    pub(super) module: Option<OsString>,
    /// Write the bytes of a buffer to a file after the call
    #[arg(long, value_name = "PARAMETER=FILE")]
    save: Vec<OsString>,
}

/// In front of a value that the parser of command lines takes for options.
pub(super) const MARK: &str = "\0";

impl Args {
    /// Takes the marks of values away; how many there were.
    pub(super) fn take_marks(&mut self) -> usize {
        let mut count = 0;
        for value in &mut self.values {
            if let Some(text) = value.as_bytes().strip_prefix(MARK.as_bytes()) {
                (*value, count) = (OsStr::from_bytes(text).to_owned(), count + 1);
            }
        }
        count
    }

    /// Were arguments or files given?
    pub(super) fn has_values(&self) -> bool {
        !self.values.is_empty() || !self.save.is_empty()
    }
}

pub(super) fn run(args: &Args, cli: &Cli) -> Result<(), Failure> {
    cli.check_device()?;
    let Some((file, image)) = image_of(cli)? else { return call_running(args, cli) };
    let module = args.module.as_deref().map(|module| module_of(module, cli)).transpose()?;
    let signatures = signatures(module.as_ref().map_or(&file, |module| &module.path))?;
    let Some(name) = &args.handler else { return print_all(&signatures, cli) };
    let prepared = prepare(name, &signatures, args, cli)?;
    let options = cli.global.apply(prepared.options());
    let node = cli.open_on(&cli.global.device, image, options)?;
    let Some(module) = module else { return prepared.run(&node, cli) };
    let module = node.load_module(&Image::file(module.path)?)?;
    prepared.run_in(&node, Some(&module), cli)?;
    Ok(module.unload()?)
}

/// Calls a device whose image runs already, and is known when it is attached.
fn call_running(args: &Args, cli: &Cli) -> Result<(), Failure> {
    let device = &cli.global.device;
    if args.module.is_some() {
        // The error says that there is no target.
        cli.target_of(device)?;
    }
    let open = |options| cli.open_on(device, cli.image()?, cli.global.apply(options));
    let plain = Options::default();
    let node = open(plain.clone())?;
    // Where the image is not known, this program's types: the device's table tells whether they are its own.
    let file = node.info().image.map_or_else(std::env::current_exe, Ok)?;
    let signatures = signatures(&file)?;
    let Some(name) = &args.handler else { return print_all(&signatures, cli) };
    let prepared = prepare(name, &signatures, args, cli)?;
    let options = prepared.options();
    if options.heap == plain.heap {
        return prepared.run(&node, cli);
    }
    // The buffers need a larger heap, which an epoch has from its beginning.
    drop(node);
    prepared.run(&open(options)?, cli)
}

/// The module's file, for the chosen device.
pub(super) fn module_of(module: &OsStr, cli: &Cli) -> Result<ImageFile, Failure> {
    let image = cli.target_of(&cli.global.device)?;
    let none = || Failure::new(format!("expected a device that takes modules, got {}", cli.global.device));
    let target = Target::of_module(image.kind, image.isa).ok_or_else(none)?;
    Ok(Image::module(module)?.resolve(&target)?)
}

/// The handlers that a file describes.
pub(super) fn signatures(file: &Path) -> Result<Vec<Signature>, Failure> {
    let mut signatures = records::read(file)
        .map_err(|why| Failure::new(format!("{}: expected the types of its handlers, but {why}", file.display())))?;
    signatures.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(signatures)
}

/// A call whose input is checked.
pub(super) struct Prepared<'s> {
    pub(super) signature: &'s Signature,
    encoded: Encoded,
    saves: Vec<(usize, PathBuf)>,
}

pub(super) fn prepare<'s>(
    name: &str,
    signatures: &'s [Signature],
    args: &Args,
    cli: &Cli,
) -> Result<Prepared<'s>, Failure> {
    let signature = choose(name, signatures, cli)?;
    let encoded = encode(signature, &args.values)?;
    let saves = saves(&args.save, &encoded.buffers)?;
    Ok(Prepared { signature, encoded, saves })
}

impl Prepared<'_> {
    /// Options of a device that has room for the buffers.
    pub(super) fn options(&self) -> Options {
        let content: usize = self.encoded.buffers.iter().map(|buffer| buffer.content.len().next_multiple_of(64)).sum();
        let plain = Options::default();
        Options { heap: plain.heap.max(content as u64 + (1 << 20)), ..plain }
    }

    /// Calls, prints, saves.
    pub(super) fn run(self, node: &Node, cli: &Cli) -> Result<(), Failure> {
        self.run_in(node, None, cli)
    }

    /// The same of a handler of a module.
    fn run_in(self, node: &Node, module: Option<&Module<'_>>, cli: &Cli) -> Result<(), Failure> {
        let running = node.device().running();
        let handler = checked(self.signature, module.map_or(&running.handlers, Module::handlers))?;
        let key = module.map_or(KnownKey::of_image(running.number, handler.key), |module| module.key(&handler));
        let (value, buffers) = call(self.signature, self.encoded, &handler, key, node)?;
        for (at, path) in self.saves {
            let bytes = buffers.get(at).map_or(&[][..], |buffer| &buffer.after);
            crate::io::write(&path, bytes)
                .map_err(|e| Failure::new(format!("cannot write {}: {e}", path.display())))?;
        }
        print(&value, &buffers, cli)
    }
}

/// The file with the types, and the image for the device. `None` of a device that has its image, where
/// no file is named.
fn image_of(cli: &Cli) -> Result<Option<(PathBuf, Image)>, Failure> {
    let image = cli.image()?;
    match cli.runtime.target(&cli.global.device)? {
        Some(target) => {
            let file = image.resolve(&target)?.path;
            Ok(Some((file.clone(), Image::file(file)?)))
        }
        None => match &cli.global.image {
            Some(text) if super::file_in(text).is_some() => Ok(Some((text.into(), image))),
            _ => Ok(None),
        },
    }
}

fn print_all(signatures: &[Signature], cli: &Cli) -> Result<(), Failure> {
    if cli.global.json {
        let rows = signatures.iter().map(|s| json!({ "name": s.name, "signature": s.to_string() }));
        return cli.print_json(&rows.collect());
    }
    let lines: String = signatures.iter().map(|signature| format!("{}\n", one_line(&signature.to_string()))).collect();
    cli.print(&lines)
}

/// The handler of this name, or the only one whose path ends with it.
fn choose<'s>(name: &str, signatures: &'s [Signature], cli: &Cli) -> Result<&'s Signature, Failure> {
    let ends = |signature: &&Signature| {
        let path = &signature.name;
        // `fill<Mine>` of `kernels::fill<my::Mine>`, and `fill` of it where there is one instance.
        let (short, plain) = (without_paths(path), path.split('<').next().unwrap_or_default());
        let before = [path.strip_suffix(name), short.strip_suffix(name), plain.strip_suffix(name)];
        before.into_iter().flatten().any(|before| before.is_empty() || before.ends_with("::"))
    };
    if let Some(exact) = signatures.iter().find(|signature| signature.name == name) {
        return Ok(exact);
    }
    let found: Vec<&Signature> = signatures.iter().filter(ends).collect();
    match found.as_slice() {
        [one] => Ok(one),
        [] => Err(Failure::new(format!(
            "expected a handler of the image, got `{name}`; `{} call` lists them with their types",
            cli.tool.name
        ))),
        many => {
            let names: Vec<&str> = many.iter().take(8).map(|signature| &*signature.name).collect();
            Err(Failure::new(format!(
                "expected one handler, got `{name}`, which {} have at their end: {}",
                many.len(),
                names.join(", ")
            )))
        }
    }
}

/// A handler's name in which type arguments have no paths.
fn without_paths(name: &str) -> String {
    let Some((path, types)) = name.split_once('<') else { return name.into() };
    let mut short = format!("{path}<");
    for part in types.split_inclusive(|c| "<>(),;[] ".contains(c)) {
        short.push_str(part.rsplit_once("::").map_or(part, |(_, last)| last));
    }
    short
}

fn encode(signature: &Signature, values: &[OsString]) -> Result<Encoded, Failure> {
    if let Some(opaque) = signature.opaque() {
        let what = if opaque.is_empty() { "a type whose description is too long" } else { opaque };
        return Err(Failure::new(format!(
            "expected types that this command can encode, got {what} in {signature}; call it from a program that links it"
        )));
    }
    if values.len() != signature.parameters.len() {
        let (wanted, got) = (signature.parameters.len(), values.len());
        let many = if wanted == 1 { "value" } else { "values" };
        return Err(Failure::new(format!("expected {wanted} {many}, got {got}: {signature}")));
    }
    let mut encoded = Encoded::default();
    for (i, ((name, ty), text)) in signature.parameters.iter().zip(values).enumerate() {
        let before = encoded.buffers.len();
        encoded
            .push(name, ty, text)
            .map_err(|why| Failure::new(format!("value {} (`{name}: {ty}`): {why}; {signature}", i + 1)))?;
        // Each has a name, by which it is saved and shown.
        if let several @ [_, _, ..] = &mut encoded.buffers[before..] {
            several.iter_mut().enumerate().for_each(|(i, buffer)| buffer.parameter = format!("{name}.{i}"));
        }
    }
    Ok(encoded)
}

/// Indices of buffers, and the files that they go to.
fn saves(texts: &[OsString], buffers: &[BufferArgument]) -> Result<Vec<(usize, PathBuf)>, Failure> {
    let parse = |text: &OsString| {
        let wrong = |why: &str| {
            let names: Vec<&str> = buffers.iter().map(|buffer| &*buffer.parameter).collect();
            let known = if names.is_empty() { "none".into() } else { names.join(", ") };
            let text = text.display();
            Failure::new(format!("--save {text}: expected PARAMETER=FILE, {why}; buffers of this call: {known}"))
        };
        let bytes = text.as_bytes();
        let at = bytes.iter().position(|byte| *byte == b'=').ok_or_else(|| wrong("got no `=`"))?;
        let (name, path) = (&bytes[..at], OsStr::from_bytes(&bytes[at + 1..]));
        let at = buffers.iter().position(|buffer| buffer.parameter.as_bytes() == name);
        let name = name.escape_ascii();
        Ok((at.ok_or_else(|| wrong(&format!("got `{name}`, which is no buffer")))?, PathBuf::from(path)))
    };
    let saves = texts.iter().map(parse).collect::<Result<Vec<_>, Failure>>()?;
    for (i, (_, path)) in saves.iter().enumerate() {
        if saves[..i].iter().any(|(_, earlier)| crate::io::is_same(earlier, path)) {
            return Err(Failure::new(format!("--save: expected a file for each buffer, got {} twice", path.display())));
        }
    }
    Ok(saves)
}

/// The handler in the device's table, which must have the types that the file describes.
fn checked(signature: &Signature, table: &[HandlerInfo]) -> Result<HandlerInfo, Failure> {
    let name = &signature.name;
    let missing =
        || Failure::new(format!("the device has no handler `{name}`; name the image that it runs with --image"));
    let handler = table.iter().find(|h| h.name == *name).cloned().ok_or_else(missing)?;
    if handler.signature != signature.hash() {
        return Err(Failure::new(format!(
            "`{name}`: expected the types in the image's file, {signature}, got others in the device's table; name the \
             image that it runs with --image"
        )));
    }
    if handler.flags & record_flag::HOST != 0 || !handler.has_body() {
        let kind = handler.flag_names().join(", ");
        return Err(Failure::new(format!("expected a handler whose body the device holds, got `{name}` ({kind})")));
    }
    Ok(handler)
}

/// A buffer before and after the call.
struct Changed {
    argument: BufferArgument,
    after: Vec<u8>,
}

fn call(
    signature: &Signature,
    encoded: Encoded,
    handler: &HandlerInfo,
    key: KnownKey,
    node: &Node,
) -> Result<(show::Shown, Vec<Changed>), Failure> {
    let Encoded { mut bytes, buffers } = encoded;
    let mut made = Vec::new();
    for argument in &buffers {
        let buffer = node.buffer(&argument.content)?;
        let len = argument.content.len().checked_div(argument.element.longest()).unwrap_or(0);
        let wire = WireBuffer::pack(BufferParts { len: len as u64, ..buffer.ptr().parts() });
        let [first, second] = wire.words();
        let pointer = [first.to_le_bytes(), second.to_le_bytes()].concat();
        if let Some(to) = bytes.get_mut(argument.at..argument.at + pointer.len()) {
            to.copy_from_slice(&pointer);
        }
        made.push(buffer);
    }
    let longest = match &signature.error {
        ErrorType::Own(error) => error.longest().max(signature.value.longest()),
        _ => signature.value.longest(),
    };
    let room = longest.min(node.limits().message);
    let options = CallOptions { reply_capacity: Some(room), key: Some(key), ..CallOptions::default() };
    // No other thread knows its buffers.
    let arguments = Arguments { bytes, buffers: Vec::new() };
    let stream = node.stream()?;
    let outcome = match handler.flags & record_flag::TASK != 0 {
        true => stream.sync_with(Call::<Untyped<true>>::new(arguments), options),
        false => stream.sync_with(Call::<Untyped<false>>::new(arguments), options),
    };
    let value = match outcome {
        Ok(Bytes(value)) => show::value(&signature.value, &value).map_err(|_| malformed(signature))?,
        Err(CallError::Handler(Bytes(error))) => {
            let ErrorType::Own(ty) = &signature.error else { return Err(malformed(signature)) };
            let error = show::value(ty, &error).map_err(|_| malformed(signature))?;
            return Err(Failure::new(format!("`{}`: the handler returned an error: {}", signature.name, error.text)));
        }
        // The registers and the backtrace of a fault are in the lines behind the first.
        Err(mut other) => {
            other.rename(&signature.name);
            let text = other.to_string();
            return Err(Failure::new(text.lines().next().unwrap_or_default()));
        }
    };
    let read = |(argument, buffer): (BufferArgument, &Buffer<u8>)| Ok(Changed { argument, after: buffer.read()? });
    let after = buffers.into_iter().zip(&made).map(read).collect::<Result<_, crate::Error>>()?;
    Ok((value, after))
}

fn malformed(signature: &Signature) -> Failure {
    Failure::new(format!("`{}`: expected a value of its type, got bytes that are none", signature.name))
}

/// The value, then every buffer that the call changed.
fn print(value: &show::Shown, buffers: &[Changed], cli: &Cli) -> Result<(), Failure> {
    let changed = buffers.iter().filter(|buffer| buffer.after != buffer.argument.content);
    let mut text = format!("{}\n", value.text);
    let mut json = Map::new();
    for Changed { argument, after } in changed {
        let shown = show::elements(&argument.element, after, cli.global.json);
        let shown =
            shown.map_err(|_| Failure::new(format!("`{}` does not hold values of its type", argument.parameter)))?;
        text.push_str(&format!("{} = {}\n", argument.parameter, shown.text));
        json.insert(argument.parameter.clone(), shown.json);
    }
    if cli.global.json {
        return cli.print_json(&json!({ "value": value.json, "buffers": Value::Object(json) }));
    }
    cli.print(&text)
}

/// Reads the records of a file that is perhaps none.
#[cfg(feature = "testing")]
pub fn any_records(path: &Path) -> usize {
    records::read(path).map_or(0, |found| found.len())
}

/// A handler's record, then values of its parameters, one in each line, then the bytes of a result: they are read, or refused.
#[cfg(feature = "testing")]
pub fn any_call(bytes: &[u8]) {
    let mut lines = bytes.split(|byte| *byte == b'\n');
    let record = lines.next().and_then(|record| std::str::from_utf8(record).ok());
    let Some(signature) = record.and_then(records::signature) else { return };
    assert!(!signature.to_string().is_empty());
    let (hash, _) = (signature.hash(), signature.opaque());
    assert_eq!(hash, signature.hash());
    let mut encoded = Encoded::default();
    for (name, ty) in &signature.parameters {
        let text = lines.next().unwrap_or_default();
        // A list with a count is as long as a caller of the command wants.
        let is_long = text.windows(6).any(|digits| digits.iter().all(u8::is_ascii_digit));
        if !is_long && encoded.push(name, ty, OsStr::from_bytes(text)).is_ok() {
            assert!(encoded.buffers.iter().all(|buffer| buffer.at + 16 <= encoded.bytes.len()));
        }
    }
    let result = lines.next().unwrap_or_default();
    if let Ok(shown) = show::value(&signature.value, result) {
        assert!(serde_json::to_string(&shown.json).is_ok());
    }
    let _ = show::elements(&signature.value, result, true);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_buffer_has_a_name_and_a_file() {
        let buffer = || Type::Buffer(Type::Scalar("u8", 1).into());
        let parameters = vec![("x".into(), buffer()), ("pair".into(), Type::Tuple(vec![buffer(), buffer()]))];
        let (value, error) = (Type::Tuple(Vec::new()), ErrorType::None);
        let signature = Signature { name: "f".into(), parameters, value, error };
        let encoded = encode(&signature, &["[1]", "([2], [3, 4])"].map(OsString::from)).expect("they are values");
        let names: Vec<&str> = encoded.buffers.iter().map(|buffer| &*buffer.parameter).collect();
        assert_eq!(names, ["x", "pair.0", "pair.1"]);
        let saves = |texts: &[&str]| saves(&texts.iter().map(OsString::from).collect::<Vec<_>>(), &encoded.buffers);
        assert_eq!(saves(&["pair.1=a", "x=b"]).expect("two files"), [(2, "a".into()), (0, "b".into())]);
        for (wrong, why) in [(&["pair=a"][..], "got `pair`"), (&["x=a", "pair.0=./a"], "got ./a twice")] {
            assert!(saves(wrong).is_err_and(|e| e.to_string().contains(why)), "{wrong:?}");
        }
    }

    #[test]
    fn texts_are_read_as_they_are_shown() {
        let tuple = |ty: Type| Type::Tuple(vec![ty]);
        let push = |ty: &Type, text: &str| {
            let mut encoded = Encoded::default();
            encoded.push("p", ty, OsStr::new(text)).map(|()| encoded.bytes)
        };
        for original in ["tab\tline\nend\r\0", "\u{1b}[2J", "\"'\\", "\u{e9}\u{10ffff}"] {
            let (ty, len) = (tuple(Type::String(64)), (original.len() as u32).to_le_bytes());
            let expected = [&len[..], original.as_bytes()].concat();
            assert_eq!(push(&ty, &format!("({original:?},)")), Ok(expected), "{original:?}");
        }
        for (ty, wrong) in [
            (Type::String(9), r#"("\a",)"#),
            (Type::String(9), r#"("\u{}",)"#),
            (Type::String(9), r#"("\u{d800}",)"#),
            (Type::String(9), r#"("\u{+41}",)"#),
            (Type::Bits(2), "(0x+1+2,)"),
            (Type::Bits(2), "(0x012,)"),
        ] {
            assert!(push(&tuple(ty), wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_is_there_differs_from_nothing_in_json() {
        let ty = Type::Option(Type::Option(Type::Tuple(Vec::new()).into()).into());
        let json = |bytes: &[u8]| show::value(&ty, bytes).ok().map(|shown| shown.json);
        assert_eq!(json(&[0]), Some(Value::Null));
        assert_eq!(json(&[1, 0]), Some(json!({ "Some": null })));
        assert_eq!(json(&[1, 1]), Some(json!({ "Some": { "Some": null } })));
    }

    #[test]
    fn names_are_shown_without_paths_of_types() {
        assert_eq!(without_paths("a::fill<(my::Pair<b::c::D>, [e::F; 2])>"), "a::fill<(Pair<D>, [F; 2])>");
        assert_eq!(without_paths("a::axpy"), "a::axpy");
    }
}
