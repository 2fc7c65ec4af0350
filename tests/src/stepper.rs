//! Ends tasks of a machine in front of any instruction: by QEMU's server for gdb, which stops the machine between two.
//!
//! A routine is what a task does from one function to another, but for what the serve loop does while the task waits. The stepper lets it run for so many instructions, and
//! then has the processor go on at address 0. What follows is the way of each trap: the stack is abandoned as it is.
//! No interrupt comes in a step, so the number alone decides where that is.

use hamr::qemu::{Machine, QemuLauncher};
use hamr::{CallError, ImageFile, Runtime};
use hamr_comm::abi::status::Status;
use object::{Object, ObjectSymbol};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// A machine that can be stepped, before it starts.
pub struct Stepped {
    folder: tempfile::TempDir,
}

/// The spec of that machine in its runtime.
pub const SPEC: &str = "stepped";

/// The remote protocol of gdb, as far as it is needed here. Registers of riscv64.
pub struct Stepper {
    to: UnixStream,
    from: BufReader<UnixStream>,
    begin: u64,
    end: u64,
}

/// The way of a task from one function to the other.
pub struct Way {
    /// The addresses of its instructions, and how often the way came by each before.
    pub instructions: Vec<(u64, u32)>,
    times: BTreeMap<u64, u32>,
}

impl Way {
    fn add(&mut self, pc: u64) {
        let times = self.times.entry(pc).or_default();
        self.instructions.push((pc, *times));
        *times += 1;
    }

    /// The last place up to `nth`, but the first, whose instruction comes once.
    fn last_once(&self, nth: usize) -> Option<(usize, u64)> {
        let pc = |at: usize| self.instructions.get(at).map(|(pc, _)| *pc);
        (1..=nth).rev().find_map(|at| pc(at).filter(|pc| self.times.get(pc) == Some(&1)).map(|pc| (at, pc)))
    }
}

/// A machine that does not answer has failed.
const TIMEOUT: Duration = Duration::from_secs(30);
/// QEMU's, in the folder.
const SOCKET: &str = "gdb";
/// Numbers of registers.
const SP: u8 = 2;
const PC: u8 = 32;

impl Stepped {
    /// Registers the machine as [`SPEC`].
    ///
    /// # Panics
    /// Without a place for its socket.
    pub fn register(runtime: &mut Runtime) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let server: &'static str = format!("unix:{},server=on,wait=off", folder.path().join(SOCKET).display()).leak();
        let args = [Machine::RISCV64.args, &["-gdb", server]].concat().leak();
        runtime.register(SPEC, QemuLauncher::machine(Machine { name: SPEC, args, ..Machine::RISCV64 }));
        Self { folder }
    }

    /// The machine, which has started with this image, between the functions with these names at the end of their symbols.
    ///
    /// # Panics
    /// When it does not answer, or the image has no such functions.
    pub fn stepper(&self, image: &ImageFile, [begin, end]: [&str; 2]) -> Stepper {
        let file = std::fs::read(&image.path).expect("it was built");
        let elf = object::File::parse(&*file).expect("an ELF file");
        let address = |name: &str| {
            let mut found = elf.symbols().filter(|symbol| symbol.name().is_ok_and(|symbol| symbol.contains(name)));
            found.next().unwrap_or_else(|| panic!("the image has no function {name}")).address()
        };
        let (begin, end) = (address(begin), address(end));
        assert_ne!(begin, end, "one function for both");
        let to = UnixStream::connect(self.folder.path().join(SOCKET)).expect("the machine has started");
        to.set_read_timeout(Some(TIMEOUT)).expect("a socket");
        let from = BufReader::new(to.try_clone().expect("a socket"));
        let mut stepper = Stepper { to, from, begin, end };
        // The connection has stopped it, which may be said before it is asked.
        assert!(stepper.ask("?").starts_with('T'), "the machine stops");
        stepper.to.set_read_timeout(Some(Duration::from_millis(200))).expect("a socket");
        while stepper.packet().is_ok() {}
        stepper.to.set_read_timeout(Some(TIMEOUT)).expect("a socket");
        // Who has seen which registers there are may ask for single ones.
        stepper.ask("qXfer:features:read:target.xml:0,40");
        stepper.go();
        stepper
    }
}

impl Stepper {
    /// The way of the next task. `send` sends its call.
    ///
    /// # Panics
    /// When the machine does not answer.
    pub fn trace<R>(&mut self, send: impl FnOnce() -> R) -> (R, Way) {
        let (sent, stack) = self.begin(send);
        let mut way = Way { instructions: Vec::new(), times: BTreeMap::new() };
        loop {
            let pc = self.register(PC);
            if pc == self.end {
                break;
            }
            if self.is_on(stack) {
                way.add(pc);
                self.step();
            } else {
                self.go_on_behind_switch(&way, stack);
            }
        }
        self.go();
        (sent, way)
    }

    /// The next task, which takes this way, is ended in front of its instruction `nth`: the address where it was,
    /// another one by what an atomic change does that a stop has come into. `None`: it was at the end already.
    ///
    /// # Panics
    /// When the machine does not answer.
    pub fn end_at<R>(&mut self, way: &Way, nth: usize, send: impl FnOnce() -> R) -> (R, Option<u64>) {
        let (sent, stack) = self.begin(send);
        // Steps take longer than the way to the last instruction that comes once.
        let mut steps = nth;
        if let Some((from, pc)) = way.last_once(nth) {
            steps = if self.run_to(pc, stack) { nth - from } else { 0 };
        }
        (0..steps).for_each(|_| self.step());
        (sent, self.end(stack))
    }

    /// The next task is ended where it first comes to this address.
    ///
    /// # Panics
    /// When the machine does not answer.
    pub fn end_at_first<R>(&mut self, pc: u64, send: impl FnOnce() -> R) -> (R, Option<u64>) {
        let (sent, stack) = self.begin(send);
        if self.register(PC) != pc {
            self.run_to(pc, stack);
        }
        (sent, self.end(stack))
    }

    /// Ends the task where it is.
    fn end(&mut self, stack: u64) -> Option<u64> {
        let pc = Some(self.register(PC)).filter(|pc| *pc != self.end);
        if pc.is_some() {
            assert!(self.is_on(stack), "the task does not run");
            self.ask(&format!("P{PC:x}={:016x}", 0));
        }
        self.go();
        pc
    }

    /// Runs until the task is at this address. False: it went another way, because the one that it notifies does not
    /// sleep yet, and is at the end of the routine.
    fn run_to(&mut self, pc: u64, stack: u64) -> bool {
        let ends = [pc, self.end];
        ends.iter().for_each(|at| self.set(*at));
        loop {
            self.go();
            self.stopped();
            if self.is_on(stack) {
                break;
            }
            // The serve loop came by.
            self.clear(pc);
            self.step();
            self.set(pc);
        }
        ends.iter().for_each(|at| self.clear(*at));
        self.register(PC) == pc
    }

    /// Runs to the first instruction of the routine; the task's stack there.
    fn begin<R>(&mut self, send: impl FnOnce() -> R) -> (R, u64) {
        self.stop();
        self.set(self.begin);
        self.go();
        let sent = send();
        self.stopped();
        self.clear(self.begin);
        (sent, self.register(SP))
    }

    /// Is this the stack of the task whose stack pointer was that? It is no longer than this, and others are elsewhere.
    fn is_on(&mut self, stack: u64) -> bool {
        stack.abs_diff(self.register(SP)) < 1 << 15
    }

    /// The task has suspended itself at the end of this way: the serve loop runs until the task goes on, behind the jump to the
    /// loop. That is the last jump; the loop's own stack comes a few instructions later.
    fn go_on_behind_switch(&mut self, way: &Way, stack: u64) {
        let jump =
            way.instructions.windows(2).rev().find(|pair| pair[0].0.abs_diff(pair[1].0) > 8).map(|pair| pair[0].0);
        let jump = jump.expect("the task does not begin with a wait");
        // It has two bytes or four.
        let after = [jump + 2, jump + 4];
        after.iter().for_each(|at| self.set(*at));
        self.go();
        self.stopped();
        after.iter().for_each(|at| self.clear(*at));
        while !self.is_on(stack) {
            self.step();
        }
    }

    /// Ends tasks in front of each instruction of a way, of a loop in its first `rounds`: `call` sends the call of one,
    /// `wait` waits for its outcome. `check` looks behind each what it has left, and is told the outcome. Words of the
    /// image are as `before` says when a task begins. `name` is for people.
    ///
    /// # Panics
    /// When the machine does not answer, a task ends otherwise, or not in front of each instruction.
    pub fn end_at_each<P>(
        &mut self,
        (name, rounds): (&str, u32),
        before: &BTreeMap<u64, u64>,
        call: impl Fn() -> P,
        wait: impl Fn(P) -> Result<(), CallError>,
        check: &mut dyn FnMut(&str, bool),
    ) {
        let start = Instant::now();
        self.restore(before);
        let (whole, way) = self.trace(&call);
        wait(whole).expect("it is not ended");
        check(name, true);
        let mut left: BTreeSet<u64> = way.instructions.iter().map(|(pc, _)| *pc).collect();
        // Of a loop the first rounds.
        let places = (0..).zip(&way.instructions).filter(|(_, (_, times))| *times < rounds).map(|(nth, _)| Some(nth));
        let (count, mut ends) = (left.len(), 0);
        // What an atomic change has kept from one of these is made up for.
        for place in places.chain(std::iter::repeat_n(None, count)) {
            self.restore(before);
            let (sent, pc) = match (place, left.first()) {
                (Some(nth), _) => self.end_at(&way, nth, &call),
                (None, Some(pc)) => self.end_at_first(*pc, &call),
                (None, None) => break,
            };
            match (wait(sent), pc) {
                (Err(CallError::Fault(report)), Some(pc)) if report.status == Status::TRAP => {
                    left.remove(&pc);
                    ends += 1;
                    check(&format!("{name}: ended in front of the instruction at {pc:#x}"), false);
                }
                (Ok(()), None) => check(name, true),
                (outcome, pc) => panic!("{name}, {pc:x?}: {outcome:?}"),
            }
        }
        assert!(left.is_empty(), "{name}: not ended in front of {left:x?}");
        println!("{name}: {ends} ends, at each of {count} instructions, {:.1?}", start.elapsed());
    }

    /// The words of the static whose symbol contains `name`.
    ///
    /// # Panics
    /// When the machine does not answer, or the image has no such static.
    pub fn statics(&mut self, image: &ImageFile, name: &str) -> BTreeMap<u64, u64> {
        let file = std::fs::read(&image.path).expect("it was built");
        let elf = object::File::parse(&*file).expect("an ELF file");
        let mut found = elf.symbols().filter(|symbol| symbol.name().is_ok_and(|symbol| symbol.contains(name)));
        let (address, size) = found.next().map(|symbol| (symbol.address(), symbol.size())).expect("the image has it");
        self.stop();
        let word = |at| (at, u64::from_str_radix(&self.ask(&format!("m{at:x},8")), 16).expect("a word"));
        let words = (address..address + size).step_by(8).map(word).collect();
        self.go();
        words
    }

    /// Gives words that have changed the values that they had.
    ///
    /// # Panics
    /// When the machine does not answer.
    pub fn restore(&mut self, words: &BTreeMap<u64, u64>) {
        if words.is_empty() {
            return;
        }
        self.stop();
        for (at, word) in words {
            assert_eq!(self.ask(&format!("M{at:x},8:{word:016x}")), "OK");
        }
        self.go();
    }

    /// Stops the machine, if it runs.
    fn stop(&mut self) {
        self.to.write_all(&[3]).expect("it runs");
        self.stopped();
    }

    fn go(&mut self) {
        self.say("c");
    }

    fn step(&mut self) {
        self.say("s");
        self.stopped();
    }

    fn set(&mut self, address: u64) {
        assert_eq!(self.ask(&format!("Z0,{address:x},2")), "OK");
    }

    fn clear(&mut self, address: u64) {
        assert_eq!(self.ask(&format!("z0,{address:x},2")), "OK");
    }

    fn register(&mut self, number: u8) -> u64 {
        let hex = self.ask(&format!("p{number:x}"));
        u64::from_str_radix(&hex, 16).expect("a register").swap_bytes()
    }

    /// Waits until the machine stops.
    fn stopped(&mut self) {
        let why = self.hear();
        assert!(why.starts_with('T'), "expected a stop, got {why}");
    }

    fn ask(&mut self, what: &str) -> String {
        self.say(what);
        self.hear()
    }

    fn say(&mut self, what: &str) {
        let sum = what.bytes().fold(0u8, u8::wrapping_add);
        self.to.write_all(format!("${what}#{sum:02x}").as_bytes()).expect("it runs");
    }

    fn hear(&mut self) -> String {
        self.packet().expect("the machine answers")
    }

    fn packet(&mut self) -> io::Result<String> {
        let mut text = Vec::new();
        self.from.read_until(b'$', &mut Vec::new())?;
        self.from.read_until(b'#', &mut text)?;
        self.from.read_exact(&mut [0; 2])?;
        self.to.write_all(b"+")?;
        text.pop();
        String::from_utf8(text).map_err(io::Error::other)
    }
}
